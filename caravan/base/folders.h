// Folders that belong to the user, and whether anybody else could change what is in one.
#pragma once

#include <sys/stat.h>

#include <string>

namespace caravan {

// $XDG_CACHE_HOME/caravan, else $HOME/.cache/caravan; empty if both are unset. A variable that is not an absolute path
// counts as unset, so that a folder within the current one is never taken for the user's.
std::string user_cache_folder();
std::string user_configuration_folder();  // the same of $XDG_CONFIG_HOME/caravan, else $HOME/.config/caravan

std::string temporary_folder();          // $TMPDIR, or /tmp if that is not a folder that can be written
std::string temporary_folder_problem();  // why it is not $TMPDIR, in one line without a full stop; empty if it is

// Makes a folder that nobody else may enter (mode 0700, whatever the umask), and its parent folders. Returns why that
// failed, such as "Permission denied", or an empty text.
std::string make_private_folder(const std::string& path);

// Could anybody but the user and root change what is in a folder? Whoever owns it or may write to it can, and so can
// whoever owns or may write to one of its parent folders, because they could replace it. (In a folder with the sticky
// bit, such as /tmp, users can rename only what they own.)
struct CheckedFolder {
  std::string path;  // without symbolic links; empty if it cannot be examined
  // Why others could change it, in one line without a full stop; empty if only the user and root can.
  std::string problem;
};
CheckedFolder check_folder(const std::string& path);

// The same for one file, in a folder that was checked.
std::string file_problem(const struct stat& about);

}  // namespace caravan
