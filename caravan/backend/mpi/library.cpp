#include "caravan/backend/mpi/library.h"

#include <dlfcn.h>

#include <string>

#include "caravan/base/error.h"

namespace caravan::mpi {

namespace {

Library opened() {
  void* handle = nullptr;
  std::string problem;
  for (const char* name : {"libmpi.so.40", "libmpi.so"}) {
    if ((handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL))) break;  // its plugins look for symbols of it
    if (problem.empty()) problem = dlerror();
  }
  if (!handle)
    throw BackendError("Open MPI cannot be used: " + problem + "; on Debian, `apt install openmpi-bin` installs it.");
  auto find = [&](const char* name) {
    void* out = dlsym(handle, name);
    if (!out)
      throw BackendError(std::string("the MPI library of this machine has no `") + name +
                         "`, so it is not Open MPI, the only one that is known.");
    return out;
  };
  Library out{};
  out.world = find("ompi_mpi_comm_world"), out.byte = find("ompi_mpi_byte");
  auto bind = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(name));
  };
  bind(out.init_thread, "MPI_Init_thread"), bind(out.finalize, "MPI_Finalize"), bind(out.abort, "MPI_Abort");
  bind(out.isend, "MPI_Isend"), bind(out.irecv, "MPI_Irecv"), bind(out.test, "MPI_Test");
  bind(out.ibarrier, "MPI_Ibarrier"), bind(out.comm_dup, "MPI_Comm_dup");
  bind(out.get_version, "MPI_Get_library_version");
  return out;
}

}  // namespace

const Library& library() {
  static const Library kLibrary = opened();
  return kLibrary;
}

}  // namespace caravan::mpi
