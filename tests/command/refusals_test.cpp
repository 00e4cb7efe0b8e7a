// Wrong words on the command line: exit code 2 and one sentence.
#include <gtest/gtest.h>

#include <string>

#include "command.h"

namespace {

TEST_F(Command, RefusesWrongInputWithCodeTwoAndOneClearSentence) {
  struct {
    Arguments arguments;
    string phrase;
  } rows[] = {
      {{"einsum", "ij;jk=>ik", "3,4", "5,6"}, "axis `j` is 4 for output axis 2 of `A`, but 5 for output axis 1 of `B`"},
      {{"einsum", "ij;jk=>ik", "3,4"}, "has 2 shapes before `=>`"},
      {{"einsum", "i=>..", "3"}, "  i=>..\n       ^"},
      {{"einsum", "ij", "3"}, "^"},
      {{"einsum", "i=>i", "3", "--size", "q=3"}, "`q`"},
      {{"einsum", "i=>i", "3", "--size", "i=4"}, "axis `i` is 3"},
      {{"einsum", "i=>i", "3", "--size", "i"}, "NAME=N"},
      {{"einsum", "i=>i", "3", "--size", "i=x"}, "NAME=N"},
      {{"einsum", "i=>i", "3,,4"}, "3,,4"},
      {{"einsum", "i=>i", "three"}, "three"},
      {{"einsum", "i=>i", "-3"}, "-3"},
      {{"einsum", "i=>i", "0"}, "size 0"},
      {{"einsum", "i=>i", "3", "--op", "median"}, "no --op `median`"},
      {{"einsum", "i=>ij", "3"}, "--size j=N"},
      {{"einsum", "i5=>i", "3,4"}, "fixed index 5"},
      {{"einsum", "x&y=>x,y", "12", "--size", "y=5"}, "5 does not divide 12"},
      {{"einsum", "ii=>i", "3,4"}, "axis `i` is 3"},
      {{"einsum", "i;j;k;l=>ijkl", "1", "2", "3", "4"}, "one to three operands"},
      {{"einsum", "i=>i", "3", "--where", "i <"}, "condition"},
      {{"einsum"}, "SPEC is required"},
      {{"einsum", "i=>i", "3", "--shape"}, "no option `--shape`"},
      {{"learn"}, "no command `learn`; there are: train, eval"},
      {{"trian", "moons"}, "no command `trian`; did you mean `train`? There are: train, eval"},
      {{"abacus", "--help"}, "no command `abacus`; there are: train"},
      {{"help", "isnpect"}, "no command `isnpect`; did you mean `inspect`?"},
      {{"help", "train", "mons"}, "no recipe `mons`; did you mean `moons`?"},
      {{"train", "mons"}, "no recipe `mons`; did you mean `moons`? There are: linear, moons"},
      {{"train", "moons", "--epoch", "3"}, "`caravan train moons` has no option `--epoch`; did you mean `--epochs`?"},
      {{"inspect", "moons", "--stage", "shape"}, "no stage `shape`; did you mean `shapes`?"},
      {{"inspect", "moons", "--measure"}, "use it with --stage kernels."},
      {{"bench", "moons", "--stage", "c", "--measure"}, "use it with --stage kernels."},
      {{"ops", "sigmod"}, "no op or accumulator `sigmod`; did you mean `sigmoid`?"},
      {{"train", "moons", "--optimizer", "addam"}, "no optimizer `addam`; did you mean `adam`?"},
      {{"completion", "tcsh"}, "no completion for `tcsh`"},
      {{"new", "../up"}, "`../up` cannot name a project"},
      {{"new", "test"}, "`test` is a target of CMake's own"},
      {{"new", "one", "--recipe", "mons"}, "no project `mons`; did you mean `moons`?"},
      {{"summary", "venus"}, "no recipe `venus`"},
      {{"serve", "--port", "80x"}, "--port: `80x` is not a whole number from 0 to 65535"},
      {{"--frobnicate"}, "no option `--frobnicate`"},
      {{"gradcheck", "nosuchcase"}, "no gradient check matches `nosuchcase`"},
      {{"ops", "nosuchop"}, "no op or accumulator `nosuchop`"},
      {{"inspect", "moons", "--stage", "c", "--pass-off", "magic"},
       "no pass `magic`; these can be left out: solve_writes, join_parts, simplify, merge_equal"},
      {{"inspect", "moons", "--stage", "c", "--pass-off", "expand_lanes"},
       "the pass `expand_lanes` cannot be left out: later passes need it"},
      {{"inspect", "moons", "--dump", "/dev/null/stages"}, "--dump `/dev/null/stages` is not a folder"},
      {{"inspect", "moons", "--dump", "/dev/null"}, "--dump `/dev/null` is not a folder"},
      {{"inspect", "moons", "--stage", "soup"}, "no stage `soup`; there are: graph, shapes"},
      {{"inspect", "moons", "--stage", "shapes", "--dot"}, "--dot draws the graph"},
      {{"inspect", "moons", "--size", "large"}, "moons has one size; leave out --size"},
      {{"inspect", "shakespeare-gpt", "--size", "huge"}, "no size `huge`; there are: small, large"},
      {{"profile", "names-transformer", "--precision", "f8"}, "no precision `f8`"},
      {{"plan", "moons", "--mesh", "data=2", "--optimizer", "addam"}, "no optimizer `addam`; did you mean `adam`?"},
      {{"inspect", "venus"}, "no recipe `venus`; there are: linear, moons"},
      {{"train"}, "needs a recipe: linear, moons"},
      {{"train", "venus"}, "no recipe `venus`; there are: linear, moons"},
      {{"train", "moons", "--dump", "/dev/null/stages"}, "--dump `/dev/null/stages` is not a folder"},
      {{"train", "moons", "--plot", "/dev/null/pictures"}, "--plot `/dev/null/pictures` is not a folder"},
      {{"train", "moons", "--pass-off", "magic"}, "no pass `magic`"},
      {{"train", "moons", "--pass-off", "magic", "--device", "interp"}, "no pass `magic`"},
      {{"train", "moons", "--debug-kernels", "--device", "interp"}, "--debug-kernels is for compiled code"},
      {{"train", "moons", "--threads", "0"}, "threads (from command line) is `0`"},
      {{"train", "moons", "--epochs", "0"}, "--epochs is 0"},
      {{"train", "moons", "--steps", "-5"}, "--steps is -5"},
      {{"train", "moons", "--epochs", "few"}, "--epochs: `few` is not a whole number"},
      {{"train", "moons", "--lr", "few"}, "--lr: `few` is not a number"},
      {{"train", "moons", "--epochs", "1", "--steps", "2"}, "excludes"},
      {{"train", "moons", "--batch", "801"}, "--batch 801 is more than the 800 points there are"},
      {{"train", "moons", "--lr", "0"}, "--lr is 0"},
      {{"train", "moons", "--seed", "-1"}, "seed (from command line) is `-1`"},
      {{"train", "moons", "--device", "abacus"}, "device kind `abacus`"},
      {{"train", "moons", "slowly"}, "does not expect `slowly`"},
      {{"doctor", "--log", "much"}, "log (from command line) is `much`"},
  };
  for (const auto& [arguments, phrase] : rows) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments) << ": " << o.err;
    EXPECT_NE(o.err.find(phrase), string::npos) << joined(arguments) << ": " << o.err;
    EXPECT_EQ(o.err.find("caravan: "), 0u) << o.err;
    EXPECT_EQ(o.err.find("unknown line"), string::npos) << "a command line has no lines: " << o.err;
    EXPECT_EQ(o.out, "") << joined(arguments);
  }
}

}  // namespace
