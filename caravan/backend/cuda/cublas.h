// The functions and numbers of cuBLASLt, NVIDIA's library of products of matrices, that this backend uses, and products
// that are computed by it. The library is opened when a GPU is first asked for; without it all products are computed by
// kernels of our own.
#pragma once

#include <string>

#include "caravan/backend/cuda/gpu.h"
#include "caravan/backend/cuda/step.h"

namespace caravan::cuda {

struct LtHandle;
struct LtDescription;
struct LtLayout;
struct LtPreference;
struct LtAlgorithm {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace;
  Result state;
  float waves;
  int reserved[4];
};

// clang-format off
// name here, name in the library, parameters
#define CARAVAN_CUBLASLT(X)                                                                                               \
  X(create, "cublasLtCreate", (LtHandle** handle))                                                                        \
  X(destroy, "cublasLtDestroy", (LtHandle* handle))                                                                       \
  X(description_create, "cublasLtMatmulDescCreate", (LtDescription** made, int compute, int scale))                       \
  X(description_set, "cublasLtMatmulDescSetAttribute",                                                                    \
    (LtDescription* of, int attribute, const void* value, size_t bytes))                                                  \
  X(description_destroy, "cublasLtMatmulDescDestroy", (LtDescription* description))                                       \
  X(layout_create, "cublasLtMatrixLayoutCreate", (LtLayout** made, int type, uint64_t rows, uint64_t columns, int64_t lead)) \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (LtLayout* of, int attribute, const void* value, size_t bytes))       \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (LtLayout* layout))                                                    \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (LtPreference** made))                                           \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                               \
    (LtPreference* of, int attribute, const void* value, size_t bytes))                                                   \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (LtPreference* preference))                                    \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                          \
    (LtHandle* handle, LtDescription* description, LtLayout* a, LtLayout* b, LtLayout* c, LtLayout* d,                    \
     LtPreference* preference, int wanted, LtHeuristic* found, int* count))                                               \
  X(multiply, "cublasLtMatmul",                                                                                           \
    (LtHandle* handle, LtDescription* description, const float* alpha, Address a, LtLayout* a_layout, Address b,          \
     LtLayout* b_layout, const float* beta, Address c, LtLayout* c_layout, Address d, LtLayout* d_layout,                 \
     const LtAlgorithm* algorithm, Address workspace, size_t workspace_bytes, StreamHandle* stream))
// clang-format on

struct CublasLt {
#define X(name, symbol, parameters) Result(*name) parameters = nullptr;
  CARAVAN_CUBLASLT(X)
#undef X
  int version = 0;  // 130100 is 13.1
};
// Opened by the first call. Null if it was not found or is too old: then `why_no_cublas_lt` says why, in a line without
// a full stop.
const CublasLt* cublas_lt();
const std::string& why_no_cublas_lt();

class LibraryProduct;

// The library for one GPU.
class ProductLibrary {
 public:
  explicit ProductLibrary(const Gpu& gpu);  // the library must have been found
  ~ProductLibrary();
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  const CublasLt& functions() const { return functions_; }
  LtHandle* handle() const { return handle_; }
  // Calls that differ only in their buffers, such as those of equal layers, have one product.
  const LibraryProduct& product(const Call& call);

 private:
  const CublasLt& functions_;
  LtHandle* handle_ = nullptr;
  std::vector<std::pair<Call, std::unique_ptr<LibraryProduct>>> products_;  // calls without their buffers
};

// One product, whose algorithm is chosen once, from its sizes. So it has the same bits in every run.
class LibraryProduct {
 public:
  LibraryProduct(const ProductLibrary& library, const Call& call);
  // Starts to compute it; the addresses are those of the first elements of the buffers. In the workspace parts of sums
  // are added up.
  void run(StreamHandle* stream, Address left, Address right, Address result, Address workspace) const;
  int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  struct Free {
    void operator()(LtDescription* d) const { cublas_lt()->description_destroy(d); }
    void operator()(LtLayout* l) const { cublas_lt()->layout_destroy(l); }
    void operator()(LtPreference* p) const { cublas_lt()->preference_destroy(p); }
  };
  template <class Kind>
  using Owned = std::unique_ptr<Kind, Free>;
  // A matrix in memory, as the library sees it: by columns.
  struct Matrix {
    Owned<LtLayout> layout;
    int64_t first = 0;  // byte of its first element
    bool transposed = false;
    uint32_t alignment = 1;  // bytes
  };
  Matrix matrix(DType dtype, const loop::Term& offset, loop::Variable down, int64_t rows, loop::Variable across,
                int64_t columns, int64_t batch) const;
  template <class Kind, class... Arguments>
  Owned<Kind> made(Result (*create)(Kind**, Arguments...), Arguments... arguments) const;
  void check(Result result) const;

  const ProductLibrary& library_;
  std::string text_;  // sizes, for messages
  Owned<LtDescription> description_;
  Matrix left_, right_, result_;
  bool swapped_ = false;  // `left_` is the right factor
  LtAlgorithm algorithm_{};
  int64_t workspace_bytes_ = 0;
};

}  // namespace caravan::cuda
