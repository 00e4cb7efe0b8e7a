// The functions of Open MPI that are used, opened at run time. No header of MPI is needed: Open MPI gives handles as
// addresses of objects with these names.
#pragma once

namespace caravan::mpi {

struct Library {
  using Comm = void*;
  using Type = void*;
  using Request = void*;

  int (*init_thread)(int*, char***, int required, int* provided);
  int (*finalize)();
  int (*abort)(Comm, int code);
  int (*isend)(const void*, int count, Type, int to, int tag, Comm, Request*);
  int (*irecv)(void*, int count, Type, int from, int tag, Comm, Request*);
  int (*test)(Request*, int* done, void* status);
  int (*ibarrier)(Comm, Request*);
  int (*comm_dup)(Comm, Comm*);
  int (*get_version)(char* text, int* length);  // may be called before init_thread
  Comm world;
  Type byte;
};

// Opens it at the first call. Throws BackendError.
const Library& library();

}  // namespace caravan::mpi
