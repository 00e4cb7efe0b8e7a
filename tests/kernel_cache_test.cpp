// The folder of compiled code: who may put code there, what is loaded and what is made again, its size, and what
// happens while the compiler or the disk fails.
#include "caravan/backend/kernel_cache.h"

#include <caravan/caravan.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "caravan/backend/own_folder.h"
#include "caravan/base/scratch.h"
#include "cc/answer.h"
#include "cc/wrong_compiler.h"
#include "contains.h"
#include "equal_pids.h"
#include "programs.h"

namespace caravan {
namespace {

namespace fs = std::filesystem;
using backend::KernelCache;
using std::string;

const char* const kOther = "int answer(void) { return 7; }\n";

// What `work` says in a process of its own, or how that ended. One that hangs is ended. The test itself compiles
// nothing, so that each process asks for the compiler's version and looks after the cache as a new one does.
string said_by_child(const std::function<string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  static const TemporaryFolder temporary;  // for the folders of these processes, which _exit leaves
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    setenv("TMPDIR", temporary.path.c_str(), 1);
    string text;
    try {
      text = work();
    } catch (const std::exception& error) {
      text = string("error: ") + error.what();
    }
    _exit(::write(ends[1], text.data(), text.size()) == ssize_t(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  string out;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) out.append(buffer, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return out;
}
string compiled_in_child(const string& source, const cc::CompilerOptions& options,
                         const std::function<void()>& before = {}) {
  return said_by_child([&] {
    if (before) before();
    const cc::Compiled compiled = cc::compile({source}, options);
    return std::to_string(answer(compiled)) + (compiled.from_cache ? " from the cache" : " made");
  });
}

std::set<string> names_in(const string& folder) {
  std::set<string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.insert(entry.path().filename());
  return out;
}
string entry_in(const string& folder) {
  for (const string& name : names_in(folder))
    if (name.ends_with(".so")) return folder + "/" + name;
  return "";
}
string key_of(const string& entry) { return fs::path(entry).stem(); }
string content(const string& path) {
  std::ifstream in(path, std::ios::binary);
  return string(std::istreambuf_iterator<char>(in), {});
}
void write_file(const string& path, const string& text) { std::ofstream(path, std::ios::binary) << text; }
void script(const string& path, const string& lines) {
  write_file(path, "#!/bin/sh\n" + lines + "\n");
  fs::permissions(path, fs::perms(0755));
}
void age(const string& path, time_t seconds) {
  const timespec then{time(nullptr) - seconds, 0}, both[] = {then, then};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW), 0) << path;
}
mode_t mode_of(const string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 ? about.st_mode & 07777 : 0;
}
constexpr uid_t kNobody = 65534;

// ---------------------------------------------------------------- who may put code there

TEST(KernelCache, IsClosedToOthersWhateverTheUmask) {
  const TemporaryFolder folder;
  const string cache = folder.path + "/deep/kernels";
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache), [] { umask(0); }), "42 made");
  EXPECT_EQ(mode_of(folder.path + "/deep"), 0700u);
  EXPECT_EQ(mode_of(cache), 0700u);
  for (const string& name : names_in(cache)) EXPECT_EQ(mode_of(cache + "/" + name) & 0022, 0u) << name;
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache)), "42 from the cache");
}

// A whole entry under the right name whose code leaves a mark when it is loaded. The first row shows that it would.
TEST(KernelCache, CodeThatAnotherCouldHavePutThereIsNotLoaded) {
  const TemporaryFolder folder;
  const string mark = folder.path + "/ran";
  struct Row {
    const char* name;
    std::function<void(const string& cache, const string& entry)> plant;
    bool loaded, kept_out, by_root_only;
  };
  auto give = [](const string& path) { ASSERT_EQ(lchown(path.c_str(), kNobody, kNobody), 0); };
  const Row rows[] = {
      {"one's own", [](const string&, const string&) {}, true, false, false},
      {"another's file", [&](const string&, const string& entry) { give(entry); }, false, false, true},
      {"another's folder", [&](const string& cache, const string&) { give(cache); }, false, true, true},
      {"another's folder on the way", [&](const string& cache, const string&) { give(fs::path(cache).parent_path()); },
       false, true, true},
      {"a file that the group may write", [](const string&, const string& entry) { chmod(entry.c_str(), 0664); }, false,
       false, false},
      {"a file that all may write", [](const string&, const string& entry) { chmod(entry.c_str(), 0646); }, false,
       false, false},
      {"a folder that the group may write", [](const string& cache, const string&) { chmod(cache.c_str(), 0770); },
       false, true, false},
      {"a folder that all may write", [](const string& cache, const string&) { chmod(cache.c_str(), 01777); }, false,
       true, false},
      {"a folder on the way that all may write",
       [](const string& cache, const string&) { chmod(fs::path(cache).parent_path().c_str(), 0777); }, false, true,
       false},
      {"a link",
       [](const string& cache, const string& entry) {
         fs::rename(entry, cache + "/elsewhere"), fs::create_symlink("elsewhere", entry);
       },
       false, false, false},
  };
  int row_number = 0;
  for (const Row& row : rows) {
    if (row.by_root_only && geteuid() != 0) continue;  // nobody else can give files away
    const string cache = folder.path + "/" + std::to_string(row_number++) + "/kernels";
    EXPECT_EQ(compiled_in_child(kSource, in_folder(cache)), "42 made");
    const string entry = entry_in(cache), code = folder.path + "/code";
    write_file(code + ".c", "#include <stdio.h>\n__attribute__((constructor)) void run(void) { fclose(fopen(\"" + mark +
                                "\", \"w\")); }\nint answer(void) { return 13; }\n");
    ASSERT_EQ(std::system(("cc -shared -fPIC -o " + code + ".so " + code + ".c").c_str()), 0);
    write_file(entry, backend::sealed(content(code + ".so"), key_of(entry)));
    row.plant(cache, entry);
    const std::set<string> before = names_in(cache);
    fs::remove(mark);
    EXPECT_EQ(compiled_in_child(kSource, in_folder(cache)), row.loaded ? "13 from the cache" : "42 made") << row.name;
    EXPECT_EQ(fs::exists(mark), row.loaded) << row.name;
    EXPECT_EQ(KernelCache(cache).problem().empty(), !row.kept_out) << row.name;
    if (row.kept_out) {
      EXPECT_EQ(names_in(cache), before) << row.name << ": it is left alone";
      EXPECT_EQ(compiled_in_child(kSource, in_folder(cache)), "42 made") << row.name;
    } else if (!row.loaded) {
      EXPECT_EQ(compiled_in_child(kSource, in_folder(cache)), "42 from the cache") << row.name << ": it was replaced";
    }
  }
}

TEST(KernelCache, TheCurrentFolderIsNeverTheUsers) {
  const TemporaryFolder folder;
  const string said = said_by_child([&]() -> string {
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "CARAVAN_CACHE"}) unsetenv(name);
    fs::current_path(folder.path);
    const KernelCache cache;
    const cc::Compiled first = cc::compile({kSource}), second = cc::compile({kSource});
    if (first.from_cache || !second.from_cache || answer(second) != 42) return "not compiled";
    if (!fs::is_empty(".")) return "something is in the current folder";
    const string own = fs::path(first.sources[0]).parent_path();
    if (own != backend::own_folder() || mode_of(own) != 0700) return own;
    return cache.folder() + cache.problem();
  });
  EXPECT_EQ(said, "neither HOME nor XDG_CACHE_HOME is an absolute path");
}

// ---------------------------------------------------------------- what is made again

TEST(KernelCache, WhatIsNoEntryIsMadeAgainAndNeverWaitedFor) {
  struct Row {
    const char* name;
    std::function<void(const string& entry)> put;
    bool replaceable = true;
  };
  const Row rows[] = {
      {"a FIFO", [](const string& entry) { ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0); }},
      {"a socket",
       [](const string& entry) {
         sockaddr_un address{};
         address.sun_family = AF_UNIX;
         ASSERT_LT(entry.size(), sizeof address.sun_path);
         entry.copy(address.sun_path, entry.size());
         const Descriptor socket_(socket(AF_UNIX, SOCK_STREAM, 0));
         ASSERT_EQ(bind(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
       }},
      {"a dangling link", [](const string& entry) { fs::create_symlink("nowhere", entry); }},
      {"a folder", [](const string& entry) { fs::create_directory(entry); }, false},
      {"the code without its seal", [](const string& entry) { write_file(entry, "\177ELF"); }},
  };
  for (const Row& row : rows) {
    const TemporaryFolder folder;
    EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), "42 made");
    const string entry = entry_in(folder);
    fs::remove(entry);
    row.put(entry);
    EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), "42 made") << row.name;
    EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), row.replaceable ? "42 from the cache" : "42 made")
        << row.name;
  }
}
TEST(KernelCache, AnEntryUnderAnothersNameIsMadeAgain) {
  const TemporaryFolder folder, other;
  EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), "42 made");
  EXPECT_EQ(compiled_in_child(kOther, in_folder(other)), "7 made");
  const string entry = entry_in(folder);
  fs::copy_file(entry_in(other), entry, fs::copy_options::overwrite_existing);
  EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), "42 made");
  EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), "42 from the cache");
}
TEST(KernelCache, CodeWithoutAFunctionNamesItsFile) {
  const TemporaryFolder folder;
  const string said = said_by_child(
      [&] { return cc::compile({kSource}, in_folder(folder)).library->symbol("question") ? "found" : "null"; });
  EXPECT_EQ(said, "error: compiled code has no `question`; remove `" + entry_in(folder) + "`.");
}

TEST(KernelCache, CommentsAreNoPartOfWhatIsCompiled) {
  struct {
    const char* text;
    const char* expected;
  } const rows[] = {
      {"/* moons.cpp:12 */\nint answer(void) { return 42; } // the end", "42 made"},
      {"/* moons.cpp:13: it's a line */\nint answer(void) { return 42; } // another", "42 from the cache"},
      {"int answer(void) { return 42; }", "42 made"},  // blanks at the end of a line are kept
      {"\n\n/* a\n   b */\nint answer(void) { return 42; }\n", "42 from the cache"},
      {"int answer(void) { return \"/*7*/\"[2] == '7' ? '\\'' + 3 : '/' * '*'; }", "42 made"},
      {"int answer(void) { return \"/*8*/\"[2] == '7' ? '\\'' + 3 : '\"' /* \" */ + 8; }", "42 made"},
      {"int answer(void) { return 7 /*/ + 35 /*/ ; }", "7 made"},
  };
  const TemporaryFolder folder;
  for (const auto& row : rows) EXPECT_EQ(compiled_in_child(row.text, in_folder(folder)), row.expected) << row.text;
}
TEST(KernelCache, TheSameModelAtAnotherLineIsNotCompiledAgain) {
  const TemporaryFolder folder;
  auto at = [&](int line) {
    return said_by_child([&] {
      ContextOptions options;
      options.device = "cpu", options.cache = folder.path;
      const Source where{"model.cpp", line};
      Tensor w = param("w", {.output = {7}}, where), x = tensor(Array(parse_shape("5|3")), "x", where);
      const Routine routine = Context(options).compile(observe(tanh(Operand(w(Operand(x, where)), where))));
      return (routine.report().from_cache ? "from the cache: " : "made: ") + routine.to_string();
    });
  };
  const string first = at(12), second = at(13);
  EXPECT_CONTAINS(first, "made: ");
  EXPECT_CONTAINS(first, "model.cpp:12");
  EXPECT_CONTAINS(second, "from the cache: ");
  EXPECT_CONTAINS(second, "model.cpp:13");
}

// ---------------------------------------------------------------- while the compiler or the disk fails

TEST(KernelCache, ServesWhileTheCompilerIsMissing) {
  const TemporaryFolder folder, empty;
  auto sum_of = [](int n) {
    return sum(tensor(Array(parse_shape(std::to_string(n)), std::vector<double>(size_t(n), 3))));
  };  // another program for each n
  auto result = [&](const string& cache, int n, const char* device) {
    return said_by_child([&] {
      setenv("PATH", "/nowhere", 1);
      Context ctx({.device = device, .cache = cache});
      return std::to_string(int(ctx.eval(sum_of(n)).item())) + " on " + ctx.device();
    });
  };
  EXPECT_EQ(said_by_child([&] {
              return Context({.device = "cpu", .cache = folder}).eval(sum_of(3)).item() == 9 ? "filled" : "wrong";
            }),
            "filled");
  EXPECT_EQ(result(folder, 3, "cpu"), "9 on cpu");
  EXPECT_EQ(result(folder, 3, "auto"), "9 on cpu") << "not interpreted, though there is no compiler now";
  const string unknown = result(folder, 4, "auto");
  EXPECT_CONTAINS(unknown, "error: there is no `cc` on the PATH; install one");
  EXPECT_CONTAINS(unknown, "and the cache `" + folder.path + "` does not have this program");
  EXPECT_EQ(result(empty, 3, "auto"), "9 on interp") << "where there was never one";
  EXPECT_CONTAINS(result(empty, 3, "cpu"), "error: there is no `cc` on the PATH");
}
TEST(KernelCache, NoticesAnotherCompilerOfTheSameName) {
  const TemporaryFolder folder;
  const string compiler = folder.path + "/my-cc", cache = folder.path + "/kernels";
  auto install = [&](const string& version) {
    script(compiler, "if [ \"$1\" = --version ]; then echo " + version + "; exit; fi\nexec cc \"$@\"");
  };
  install("one");
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache, compiler)), "42 made");
  install("two");
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache, compiler)), "42 made");
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache, compiler)), "42 from the cache");
  install("one");
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache, compiler)), "42 from the cache");
  fs::remove(compiler);
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache, compiler)), "42 from the cache");
}
TEST(KernelCache, ACompilerThatFailsIsAnErrorAndNotAMissingOne) {
  const TemporaryFolder folder;
  struct Row {
    const char *lines, *phrase;
  };
  const Row rows[] = {
      {"exit 1", "the C compiler `cc` cannot be run (`cc --version`: status 1)"},
      {"kill -9 $$", "the C compiler `cc` cannot be run (`cc --version`: signal 9, Killed)"},
      {"[ \"$1\" = --version ] && exit; echo out of luck; exit 4", "the C compiler failed (status 4): out of luck"},
  };
  for (const Row& row : rows) {
    script(folder.path + "/cc", row.lines);
    const string said = said_by_child([&] {
      setenv("PATH", (folder.path + ":/usr/bin:/bin").c_str(), 1);
      return std::to_string(
          Context({.cache = folder.path + "/kernels"}).eval(sum(tensor(Array(parse_shape("3"))))).item());
    });
    EXPECT_CONTAINS(said, string("error: ") + row.phrase);
    EXPECT_CONTAINS(said, "or ask for the device `interp`, which needs no compiler");
  }
}
TEST(KernelCache, AutoLeavesACompilerThatIsWrongAtTheFirstProgram) {
  const WrongCompiler never("never");
  EXPECT_EQ(
      said_by_child([&] {
        setenv("PATH", (never.folder() + ":/usr/bin:/bin").c_str(), 1);
        Context ctx({.cache = never.cache()});
        string out = ctx.device() + ctx.device_reason();
        ctx.write("x", Array(parse_shape("3"), std::vector<double>{1, 2, 4}), {.create = true});
        const Tensor x = state("x", {.output = {3}});
        out += ", " + std::to_string(int(ctx.eval(sum(x)).item()));
        out += " on " + ctx.device();
        out += ctx.device_reason().find(" test loops wrongly") == string::npos ? ", without a reason" : ", wrong";
        return out + ", " +
               std::to_string(int(Context({.cache = never.cache()}).eval(sum(tensor(Array::scalar(7)) * 2)).item()));
      }),
      "cpu, 7 on interp, wrong, 14");
}
TEST(KernelCache, NoRoomForAProcessIsAnErrorAndNotAMissingCompiler) {
  const TemporaryFolder folder, temporary;
  fs::permissions(folder.path, fs::perms(0755)), fs::permissions(temporary.path, fs::perms(01777));
  EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), "42 made");
  auto without_processes = [&](const char* source) {
    return compiled_in_child(source, in_folder(folder), [&] {
      setenv("TMPDIR", temporary.path.c_str(), 1);
      const rlimit none{0, 0};
      if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && setuid(kNobody) != 0))
        throw std::runtime_error("no limit");
    });
  };
  EXPECT_EQ(without_processes(kSource), "42 from the cache");
  EXPECT_CONTAINS(without_processes(kOther),
                  "error: the C compiler `cc` cannot be run (`cc --version`: Resource temporarily unavailable)");
}
TEST(KernelCache, AFolderThatGoesWhileTheCompilerRunsIsReplacedByTheProcesssOwn) {
  const TemporaryFolder folder;
  const string cache = folder.path + "/kernels", compiler = folder.path + "/my-cc";
  script(compiler, "[ \"$1\" = --version ] || rm -rf " + cache + "\nexec cc \"$@\"");
  EXPECT_EQ(compiled_in_child(kSource, in_folder(cache, compiler)), "42 made");
  script(compiler, "[ \"$1\" = --version ] || rm -rf " + cache + " $TMPDIR\nexec cc \"$@\"");
  const string said = compiled_in_child(kSource, in_folder(cache, compiler));
  EXPECT_CONTAINS(said, "error: compiled code could not be written (is the disk full?): `" + cache +
                            "`: No such file or directory; `/");
}
TEST(KernelCache, ATemporaryFolderThatIsNotThereIsReplaced) {
  const TemporaryFolder folder;
  chmod(folder.path.c_str(), 0777);  // so that it is not used
  EXPECT_EQ(compiled_in_child(kSource, in_folder(folder), [] { setenv("TMPDIR", "/none", 1); }), "42 made");
  remove_abandoned_folders("/tmp", "caravan-");  // where it went instead
}
TEST(KernelCache, AChildOfForkHasAFolderOfItsOwn) {
  const TemporaryFolder folder;
  chmod(folder.path.c_str(), 0777);
  EXPECT_EQ(said_by_child([&]() -> string {
              const string own = backend::own_folder();
              const string of_child = said_by_child([&] {
                return answer(cc::compile({kSource}, in_folder(folder))) == 42 ? backend::own_folder() : "not compiled";
              });
              if (!of_child.starts_with("/") || of_child == own) return of_child;
              return fs::exists(own) ? "both" : "the parent's has gone";
            }),
            "both");
}

TEST(KernelCache, ProcessesWithTheSameNumberDoNotDisturbEachOther) {
  const TemporaryFolder folder;
  constexpr int kProcesses = 32;
  const int good = succeed_with_equal_pids(kProcesses, [&](int p) {
    try {
      return answer(cc::compile({p % 2 ? kSource : kOther}, in_folder(folder))) == (p % 2 ? 42 : 7) ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  });
  if (good < 0) GTEST_SKIP() << "this system gives no namespaces of process numbers";
  EXPECT_EQ(good, kProcesses);
  EXPECT_EQ(names_in(folder).size(), 5u) << "two entries, two texts, a note";
}

// ---------------------------------------------------------------- its size

TEST(KernelCache, WhatKilledProcessesLeftIsRemoved) {
  const TemporaryFolder folder;
  const string key(32, 'a'), in = folder.path + "/";
  const ScratchFolder live(folder, backend::kBuildPrefix);
  const pid_t killed = fork();
  if (killed == 0) {
    auto* left = new ScratchFolder(folder, backend::kBuildPrefix);
    write_file(left->path() + "/half.c", "half");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(killed, &status, 0), killed);
  const std::set<string> old = {key + ".123.0.c", key + ".123.0.log", key + ".9.1.so",
                                "version.77",     key + ".c",         key + ".0123456789abcdef.part"};
  const std::set<string> others = {"digits.safetensors", "interrupted", key.substr(1) + ".c"};
  for (const string& name : old) write_file(in + name, ""), age(in + name, 100'000);
  for (const string& name : others) write_file(in + name, ""), age(in + name, 100'000);
  const string young = string(32, 'b') + ".c";  // refused by the compiler, and kept to be looked at
  write_file(in + young, "");
  EXPECT_EQ(compiled_in_child(kSource, in_folder(folder)), "42 made");
  std::set<string> left = names_in(folder);
  for (const string& name : old) EXPECT_FALSE(left.count(name)) << name;
  for (const string& name : others) EXPECT_TRUE(left.count(name)) << name;
  EXPECT_TRUE(left.count(young));
  int builds = 0;
  for (const string& name : left) builds += name.starts_with(backend::kBuildPrefix);
  EXPECT_EQ(builds, 1) << "the one in use";
  EXPECT_TRUE(fs::exists(live.path()));
}
TEST(KernelCache, WhatWasNotUsedForTheLongestTimeGoesWhereThereIsALimit) {
  const TemporaryFolder folder;
  auto entry = [&](char c) { return folder.path + "/" + string(32, c); };
  auto there = [&] {
    string out;
    for (const char c : {'a', 'b', 'c', 'd'}) out += fs::exists(entry(c) + ".so") ? string(1, c) : "";
    return out;
  };
  auto fill = [&] {
    time_t old = 5000;
    for (const char c : {'a', 'b', 'c', 'd'}) {
      write_file(entry(c) + ".so", backend::sealed(string(400'000, c), string(32, c))),
          age(entry(c) + ".so", old -= 1000);
      write_file(entry(c) + ".0.c", string(1000, c)), age(entry(c) + ".0.c", 9000);
    }
  };
  auto compile_with_limit = [&](const char* source, const char* limit) {
    return compiled_in_child(source, in_folder(folder), [&] { setenv("CARAVAN_CACHE_LIMIT", limit, 1); });
  };
  fill();
  EXPECT_EQ(KernelCache(folder).content().kernels, 4);
  EXPECT_EQ(KernelCache(folder).content().bytes, 4 * (400'000 + 32 + 1000));
  EXPECT_TRUE(KernelCache(folder).has(string(32, 'a'), ".so")) << "which is a use of it";
  EXPECT_EQ(compile_with_limit(kSource, "0"), "42 made");
  EXPECT_EQ(there(), "abcd") << "no limit";
  EXPECT_EQ(compile_with_limit(kOther, "1"), "7 made");
  EXPECT_EQ(there(), "ad") << "the two that were not used for the longest time";
  EXPECT_FALSE(fs::exists(entry('b') + ".0.c")) << "with its text";
  write_file(entry('e') + ".c", string(1'000'000, 'e')), age(entry('e') + ".c", 9000);
  EXPECT_EQ(compile_with_limit("int answer(void) { return 9; }\n", "1"), "9 made");
  EXPECT_FALSE(fs::exists(entry('e') + ".c")) << "a text without a kernel counts too";
  EXPECT_EQ(there(), "ad");
  EXPECT_EQ(compile_with_limit(kSource, "1"), "42 from the cache");
  EXPECT_EQ(compile_with_limit(kOther, "1"), "7 from the cache");
  EXPECT_CONTAINS(compile_with_limit("int answer(void) { return 8; }\n", "much"),
                  "CARAVAN_CACHE_LIMIT is `much`; it must be a whole number of megabytes");

  const KernelCache::Content removed = KernelCache(folder).clear();
  EXPECT_GE(removed.kernels, 4);
  EXPECT_TRUE(fs::is_empty(folder.path));
}

}  // namespace
}  // namespace caravan
