// Folders that belong to the user, and whether anybody else could change what is in one.
#pragma once

#include <sys/stat.h>

#include <string>

namespace caravan {

// $XDG_CACHE_HOME/caravan, else $HOME/.cache/caravan. A variable that is not an absolute path is as good as unset, so
// that nothing of the current folder is ever taken for the user's; empty where both are.
std::string user_cache_folder();

std::string temporary_folder();          // $TMPDIR; where that is no folder that can be written, /tmp
std::string temporary_folder_problem();  // why it is not $TMPDIR, in one line without a full stop; empty: it is

// Makes a folder that nobody else may enter (mode 0700, whatever the umask), and those that lead to it.
// Returns why it cannot, as "Permission denied"; empty: it is there.
std::string make_private_folder(const std::string& path);

// Who could change what is in a folder: one who owns it or may write it, and one who owns or may write a folder on the
// way to it, because they could put another in its place. (In a folder with the sticky bit, such as /tmp, nobody
// renames what is not theirs.) Trusted are the user and root.
struct CheckedFolder {
  std::string path;     // without links; empty where it cannot be looked at
  std::string problem;  // in one line without a full stop; empty: the user and root alone
};
CheckedFolder check_folder(const std::string& path);

// Likewise for one file, in a folder that was checked.
std::string file_problem(const struct stat& about);

}  // namespace caravan
