#include "caravan/backend/cuda/cublas.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "caravan/backend/cuda/open_library.h"
#include "caravan/base/error.h"
#include "caravan/loop/dependence.h"
#include "caravan/target/gpu_steps.h"

namespace caravan::cuda {

using Product = loop::LibraryCall::Product;

namespace {

// Numbers of the library's interface.
constexpr int kF32 = 0, kF16 = 2, kBf16 = 14;                            // cudaDataType
constexpr int kSumsInF32 = 68, kTf32 = 77;                               // cublasComputeType_t
constexpr int kBatchCount = 5, kBatchStride = 6;                         // cublasLtMatrixLayoutAttribute_t
constexpr int kTransposeA = 3, kTransposeB = 4;                          // cublasLtMatmulDescAttributes_t
constexpr int kMostWorkspace = 1, kReductions = 3, kFirstAlignment = 5;  // cublasLtMatmulPreferenceAttributes_t
constexpr uint32_t kPartsInWorkspace = 2;                                // cublasLtReductionScheme_t
constexpr int kOldestCublasLt = 120000;

int library_type(DType dtype) { return dtype == DType::bf16 ? kBf16 : dtype == DType::f16 ? kF16 : kF32; }

struct Opened {
  std::unique_ptr<CublasLt> library;
  std::string why;
};
Opened open_cublas_lt() {
  Opened out;
  if (const char* given = std::getenv("CARAVAN_CUBLASLT"); given && std::string_view(given) == "none") {
    out.why = "CARAVAN_CUBLASLT is `none`";
    return out;
  }
  void* library = open_first(toolkit_names("CARAVAN_CUBLASLT", "libcublasLt.so"));
  if (!library) {
    out.why = "cuBLASLt (libcublasLt) was not found";
    return out;
  }
  auto found = std::make_unique<CublasLt>();
  try {
    constexpr const char* what = "cuBLASLt (libcublasLt)";
#define X(name, symbol, parameters) find_function(library, symbol, found->name, what);
    CARAVAN_CUBLASLT(X)
#undef X
    size_t (*version)() = nullptr;
    find_function(library, "cublasLtGetVersion", version, what);
    found->version = int(version());
  } catch (const NoGpuError& error) {
    out.why = reason_of(error);
    return out;
  }
  if (found->version < kOldestCublasLt)
    out.why = "cuBLASLt is of version " + std::to_string(found->version / 10000) + ", older than 12";
  else
    out.library = std::move(found);
  return out;
}
const Opened& opened() {
  static const Opened found = open_cublas_lt();
  return found;
}

}  // namespace

const CublasLt* cublas_lt() { return opened().library.get(); }
const std::string& why_no_cublas_lt() { return opened().why; }

ProductLibrary::ProductLibrary(const Gpu& gpu) : functions_(*cublas_lt()) {
  gpu.use();
  if (const Result failed = functions_.create(&handle_))
    throw BackendError("cuBLASLt does not start (status " + std::to_string(failed) + ").");
}
ProductLibrary::~ProductLibrary() { functions_.destroy(handle_); }

const LibraryProduct& ProductLibrary::product(const Call& call) {
  Call key = call;
  key.call.reads.clear(), key.call.writes.clear();
  const auto known = std::find_if(products_.begin(), products_.end(), [&](const auto& p) { return p.first == key; });
  if (known != products_.end()) return *known->second;
  return *products_.emplace_back(key, std::make_unique<LibraryProduct>(*this, call)).second;
}

void LibraryProduct::check(Result result) const {
  if (result != 0)
    throw BackendError("cuBLASLt does not take a product of " + text_ + " (status " + std::to_string(result) + ").");
}
template <class Kind, class... Arguments>
LibraryProduct::Owned<Kind> LibraryProduct::made(Result (*create)(Kind**, Arguments...), Arguments... arguments) const {
  Kind* out = nullptr;
  check(create(&out, arguments...));
  return Owned<Kind>(out);
}

// `down` and `across` are the variables of rows and columns. The library's matrices lie in memory column by column, so
// one whose elements of a row are neighbours is given as its transpose.
LibraryProduct::Matrix LibraryProduct::matrix(DType dtype, const loop::Term& offset, loop::Variable down, int64_t rows,
                                              loop::Variable across, int64_t columns, int64_t batch) const {
  const CublasLt& library = library_.functions();
  const int64_t by_row = loop::coefficient(offset, down), by_column = loop::coefficient(offset, across),
                by_batch = loop::coefficient(offset, Product::kBatch), size = bytes(dtype);
  Matrix out;
  out.transposed = by_row != 1 || by_column < rows;
  out.first = offset.constant * size;
  out.layout = made(library.layout_create, library_type(dtype), uint64_t(out.transposed ? columns : rows),
                    uint64_t(out.transposed ? rows : columns), out.transposed ? by_row : by_column);
  const int32_t count = int32_t(batch);
  check(library.layout_set(out.layout.get(), kBatchCount, &count, sizeof count));
  check(library.layout_set(out.layout.get(), kBatchStride, &by_batch, sizeof by_batch));
  out.alignment = uint32_t(std::gcd(std::gcd(kGpuAlignment, out.first), batch > 1 ? by_batch * size : 0));
  return out;
}

// The library's result lies column by column: for one that lies row by row, y = x w is computed as the transposes of
// all three, which are w x there.
LibraryProduct::LibraryProduct(const ProductLibrary& library, const Call& call) : library_(library) {
  const CublasLt& lt = library_.functions();
  const Product& p = std::get<Product>(call.call.function);
  text_ = std::to_string(p.rows) + " rows, " + std::to_string(p.columns) + " columns and " + std::to_string(p.terms) +
          " terms";
  result_ = matrix(call.result, p.result, Product::kRow, p.rows, Product::kColumn, p.columns, p.batch);
  const bool by_rows = result_.transposed;
  left_ = by_rows ? matrix(call.left, p.left, Product::kTerm, p.terms, Product::kRow, p.rows, p.batch)
                  : matrix(call.left, p.left, Product::kRow, p.rows, Product::kTerm, p.terms, p.batch);
  right_ = by_rows ? matrix(call.right, p.right, Product::kColumn, p.columns, Product::kTerm, p.terms, p.batch)
                   : matrix(call.right, p.right, Product::kTerm, p.terms, Product::kColumn, p.columns, p.batch);
  swapped_ = by_rows;
  if (swapped_) std::swap(left_, right_);

  description_ = made(lt.description_create, p.tf32 ? kTf32 : kSumsInF32, kF32);
  const int32_t transposes[] = {left_.transposed, right_.transposed};
  check(lt.description_set(description_.get(), kTransposeA, &transposes[0], sizeof transposes[0]));
  check(lt.description_set(description_.get(), kTransposeB, &transposes[1], sizeof transposes[1]));
  const auto preference = made(lt.preference_create);
  const uint64_t most = kLibraryWorkspace;
  check(lt.preference_set(preference.get(), kMostWorkspace, &most, sizeof most));
  check(lt.preference_set(preference.get(), kReductions, &kPartsInWorkspace, sizeof kPartsInWorkspace));
  const uint32_t alignments[] = {left_.alignment, right_.alignment, result_.alignment, result_.alignment};
  for (int k = 0; k < 4; ++k)
    check(lt.preference_set(preference.get(), kFirstAlignment + k, &alignments[k], sizeof alignments[k]));
  LtHeuristic found{};
  int count = 0;
  check(lt.heuristic(library_.handle(), description_.get(), left_.layout.get(), right_.layout.get(),
                     result_.layout.get(), result_.layout.get(), preference.get(), 1, &found, &count));
  if (count == 0) throw BackendError("cuBLASLt has no algorithm for a product of " + text_ + ".");
  algorithm_ = found.algorithm;
  workspace_bytes_ = (int64_t(found.workspace) + kGpuAlignment - 1) / kGpuAlignment * kGpuAlignment;
}

void LibraryProduct::run(StreamHandle* stream, Address left, Address right, Address result, Address workspace) const {
  if (swapped_) std::swap(left, right);
  const float one = 1, zero = 0;
  check(library_.functions().multiply(
      library_.handle(), description_.get(), &one, left + Address(left_.first), left_.layout.get(),
      right + Address(right_.first), right_.layout.get(), &zero, result + Address(result_.first), result_.layout.get(),
      result + Address(result_.first), result_.layout.get(), &algorithm_, workspace, size_t(workspace_bytes_), stream));
}

}  // namespace caravan::cuda
