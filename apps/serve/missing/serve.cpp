// Where the HTTP library is missing.
#include "apps/commands.h"
#include "caravan/base/error.h"

namespace caravan::app {

int serve_command(const ServeOptions&, const Settings&) {
  throw BackendError(
      "this caravan was built without the page, because cpp-httplib was missing; install it (Debian: "
      "libcpp-httplib-dev and pkg-config) and build again.");
}

}  // namespace caravan::app
