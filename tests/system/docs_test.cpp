// Every command that a page shows is run as it is written there, in a copy of the tree's layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "support/command.h"
#include "support/launched_job.h"
#include "support/pattern.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

struct Shown {
  std::string page;  // relative to the root
  int line = 0;
  std::string command;  // without its remark
};

/// The pages for users.
std::vector<std::string> pages() {
  return {"README.md",      "configs/README.md", "configs/LAYOUTS.md", "configs/machines/README.md",
          "data/README.md", "scripts/README.md", "tests/README.md"};
}

/// The commands below one heading of a page. They need what those before them made, and of other
/// sections nothing but the first run, runs/gpt-quickstart.
struct Section {
  std::string page, heading;
  std::vector<Shown> commands;
};

/// A line of a page without what stands after "#" on it.
std::string without_remark(const std::string& line) {
  const std::string command = line.substr(0, line.find(" # "));
  return command.substr(0, command.find_last_not_of(' ') + 1);
}

/// Lines of fenced blocks that begin with a program of ours or a launcher, by heading. No regular
/// expressions: each test of this executable begins with a look at all pages.
std::vector<Section> sections_of(const std::string& page) {
  constexpr std::array programs = {"build/",  "scripts/", "data/", "mpirun ",
                                   "sbatch ", "ctest ",   "cmake "};
  std::vector<Section> found;
  std::istringstream text(read_file(std::string(FOURFOLD_SOURCE_DIR "/") + page));
  bool is_code = false;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    const auto begins = [&](const char* program) { return line.starts_with(program); };
    if (line.starts_with("```"))
      is_code = !is_code;
    else if (!is_code && line.starts_with("#"))
      found.push_back({page, line.substr(line.find_first_not_of("# ")), {}});
    else if (is_code && std::ranges::any_of(programs, begins))
      found.back().commands.push_back({page, number, without_remark(line)});
  }
  return found;
}

/// A block of a page that shows what a command prints; "..." stands for lines that are left out.
struct ShownOutput {
  std::string page;
  int line = 0;  // of its first line
  std::vector<std::string> lines;
};

/// The fenced blocks without a command and without a language.
std::vector<ShownOutput> outputs_of(const std::string& page) {
  static const test::Pattern command(
      "^(build/|scripts/|data/|mpirun |sbatch |ctest |cmake |build-gpu/|python3 |\\w+=).*");
  std::vector<ShownOutput> found;
  std::istringstream text(read_file(std::string(FOURFOLD_SOURCE_DIR "/") + page));
  std::optional<ShownOutput> block;
  bool is_code = false, is_output = false;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (!line.starts_with("```")) {
      if (is_code && command.matches(line)) is_output = false;
      if (is_code) block->lines.push_back(line);
      continue;
    }
    if (is_code && is_output) found.push_back(*std::move(block));
    is_code = !is_code;
    is_output = line == "```";
    block = ShownOutput{page, number + 1, {}};
  }
  return found;
}

std::string in_one_line(const std::string& text) {
  static const test::Pattern blanks("\\s+");
  std::string line = blanks.replaced_in(text, " ");
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

/// A text without what differs from machine to machine and from run to run: numbers with their
/// units, and which kernels compute, with the workspace that they take.
std::string shape_of(const std::string& text) {
  static const test::Pattern number("[0-9][0-9.,]*( ([KMG]iB|ms|s|us)\\b|[kMG]\\b|m[0-9]+s|%)?"),
      workspace("( workspace #,| workspace workspace\\[#:#\\])"), kernel(" by [a-z]+\\b");
  const std::string shape = number.replaced_in(in_one_line(text), "#");
  return kernel.replaced_in(workspace.replaced_in(shape, ""), "");
}

/// Commands that other tests run, or that run the tests.
struct Elsewhere {
  const char* begins;
  const char* where;
};
constexpr Elsewhere elsewhere[] = {
    {"scripts/quickstart", "the README's first command builds the tree that this test belongs to"},
    {"scripts/test", "runs this test"},
    {"scripts/check", "scripts/test runs it first"},
    {"scripts/setup", "scripts/test runs it first"},
    {"scripts/build", "scripts/test runs it first"},
    {"scripts/gpu-check", "needs a GPU; test_gpu_check.py runs it with a program that was made up"},
    {"scripts/bench-overlap",
     "takes many minutes; test_bench_overlap.py has what it says of its times"},
    {"scripts/bench-pipeline",
     "takes many minutes; test_bench_pipeline.py has what it says of its times"},
    {"scripts/bench-reshard",
     "takes many minutes; test_bench_reshard.py has what it says of its times"},
    {"scripts/bench-gpu", "needs a GPU; test_bench_gpu.py has what it says of its figures"},
    {"scripts/bench-simulate",
     "takes many minutes; test_bench_simulate.py has what it says of its times"},
    {"scripts/bench-layouts",
     "takes half an hour; test_bench_layouts.py has what it says of its figures"},
    {"scripts/bench-topologies",
     "takes an hour; test_bench_topologies.py has what it says of its times"},
    {"scripts/repro/table", "test_repro.py has what it says of its rows"},
    {"data/get-corpus", "installs a package"},
    {"sbatch ", "slurm_test.cpp"},
    {"ctest ", "runs this test"},
};

bool is_run_elsewhere(const std::string& command) {
  return std::any_of(std::begin(elsewhere), std::end(elsewhere),
                     [&](const Elsewhere& other) { return command.starts_with(other.begins); });
}

/// As written, but short: a run of a few steps shows that it starts, trains and ends. A U-Net is
/// narrow and gets 100 times of noise instead of 1,000, because to judge a picture is a pass for
/// each of them. Few pictures are drawn, kernels are timed for a moment, and what is planned has
/// few layers.
std::string shortened(const std::string& command) {
  const auto has = [&](const char* words) { return command.find(words) != std::string::npos; };
  if (command.starts_with("data/draw-shapes")) return command + " --train 128 --test 32";
  for (const char* measuring : {"fourfold bench kernels ", "fourfold bench reshard "})
    if (has(measuring) && !has("--seconds")) return command + " --seconds 0.001";
  for (const char* measuring : {"fourfold bench machine", "fourfold bench collectives"})
    if (has(measuring)) return command + " --quick";
  if (has("fourfold generate runs/unet-"))
    return command + " --samples 2" + (has("--steps") ? "" : " --steps 10");
  if (has("fourfold eval runs/unet-")) return command.substr(0, command.rfind(' ')) + " 1";
  if (has("fourfold plan configs/paper/"))
    return command + " --set model.num_layers=4" +
           (has("--machine") ? " --set parallel.pipeline.stages=1 --simulate 1" : "");
  if (has("fourfold simulate configs/paper/")) return command + " --set model.num_layers=4";
  if (!has("fourfold train ")) return command;
  static const test::Pattern stop("--stop-at [0-9]+");
  std::string few = "train.steps=3 --set sample.tokens=8";
  if (has("gpt-tiny")) few = "train.steps=3";  // has no text
  if (has("vgg-")) few = "train.steps=3 --set lr_schedule.warmup_steps=1";
  if (has("unet-"))
    few =
        "train.steps=3 --set lr_schedule.warmup_steps=1 --set diffusion.steps=100 --set "
        "unet.channels=8";
  return stop.replaced_in(command, "--stop-at 2") + " --set eval.batches=1 --set " + few;
}

class Docs : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / format("fourfold-docs-{}", getpid());
    fs::create_directories(folder_ / "data");
    const fs::path source(FOURFOLD_SOURCE_DIR);
    fs::create_directory_symlink(fs::path(FOURFOLD_BINARY).parent_path(), folder_ / "build");
    for (const char* room : {"configs", "scripts", "tests"})
      fs::create_directory_symlink(source / room, folder_ / room);
    fs::create_symlink(source / "data" / "draw-shapes", folder_ / "data" / "draw-shapes");
    write_file_atomic((folder_ / "data" / "bible.txt").string(), some_text());
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The kinds of characters of the real text.
  static constexpr std::string_view kinds =
      "\n ,.:;!?()-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

  /// In the place of the real one, which a test must not need: its vocabulary is as large.
  static std::string some_text() {
    std::string text(kinds);
    for (int verse = 1; verse <= 600; ++verse)
      text += format("{}:{} In the beginning was line number {}; and it was so.\n", verse / 30 + 1,
                     verse % 30 + 1, verse);
    return text;
  }
  /// As many characters as the real one has, of as many kinds.
  static std::string text_of_its_size() {
    constexpr std::size_t size = 4'236'031;
    std::string text;
    while (text.size() < size) text += kinds;
    return text.substr(0, size);
  }

  /// What a command prints, of both streams.
  std::string output_of(const std::string& command) {
    const fs::path output = folder_ / format("job-{}", ++jobs_);
    fs::create_directories(output);
    test::LaunchedJob job({"bash", "-c", format("cd '{}' && {}", folder_.string(), command)},
                          output.string());
    EXPECT_EQ(job.wait(test::hang_s), 0) << command << "\n" << job.output();
    return job.output();
  }

  void run(const Shown& shown) {
    SCOPED_TRACE(format("{}:{}: {}", shown.page, shown.line, shown.command));
    const fs::path output = folder_ / format("job-{}", ++jobs_);
    fs::create_directories(output);
    test::LaunchedJob job(
        {"bash", "-c", format("cd '{}' && {}", folder_.string(), shortened(shown.command))},
        output.string(),
        {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
         {"OMPI_MCA_rmaps_base_oversubscribe", "1"}});
    const auto begin = std::chrono::steady_clock::now();
    const std::optional<int> code = job.wait(test::hang_s);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%6.1f s  %s\n", took.count(), shown.command.c_str());
    const bool needs_gpu = shown.command.find("run.device=cuda") != std::string::npos;
    const int without_gpu = static_cast<int>(ExitCode::environment);
    EXPECT_TRUE(code == 0 || (needs_gpu && code == without_gpu)) << job.output();
    const bool is_redirected = shown.command.find(" > ") != std::string::npos;
    EXPECT_TRUE(is_redirected || !job.output().empty());
  }

  fs::path folder_;
  int jobs_ = 0;
};

/// The sections in which there is a command to be run here.
std::vector<Section> sections_to_run() {
  std::vector<Section> found;
  for (const std::string& page : pages())
    for (Section& section : sections_of(page)) {
      std::erase_if(section.commands,
                    [](const Shown& shown) { return is_run_elsewhere(shown.command); });
      if (!section.commands.empty()) found.push_back(std::move(section));
    }
  return found;
}

void PrintTo(const Section& section, std::ostream* out) {
  *out << section.page << ": " << section.heading;
}

class DocsSection : public Docs, public testing::WithParamInterface<Section> {};

TEST_P(DocsSection, runs_as_written) {
  const Section& section = GetParam();
  const auto uses = [&](const Shown& shown) {
    return shown.command.find(" runs/gpt-quickstart") != std::string::npos;
  };
  const auto trains = [&](const Shown& shown) {
    return shown.command == "build/fourfold train configs/gpt-quickstart.yaml";
  };
  if (std::ranges::any_of(section.commands, uses) && std::ranges::none_of(section.commands, trains))
    run({section.page, 0, "build/fourfold train configs/gpt-quickstart.yaml"});
  for (const Shown& shown : section.commands)
    if (!shown.command.starts_with("mpirun") || test::has_command("mpirun")) run(shown);
}

INSTANTIATE_TEST_SUITE_P(Every, DocsSection, testing::ValuesIn(sections_to_run()),
                         [](const auto& tested) {
                           std::string name = tested.param.page + "_" + tested.param.heading;
                           for (char& letter : name)
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           return name;
                         });

TEST(DocsSections, have_the_commands_of_all_pages) {
  std::size_t commands = 0;
  for (const Section& section : sections_to_run()) commands += section.commands.size();
  EXPECT_GE(commands, 80U);
}

/// By the page and the beginning of its first line: what prints it; empty: what tests it.
struct Printed {
  const char *page, *begins, *command;
};
constexpr Printed printed[] = {
    // Only the shape of rows of steps is compared, so that few steps of a short text will do.
    {"README.md", "run ",
     "build/fourfold train configs/gpt-quickstart.yaml --dry-run && build/fourfold train "
     "configs/gpt-quickstart.yaml --set data.path=data/short.txt "
     "--set run.name=shown --set eval.interval_steps=10 --set eval.batches=1 --set log.interval=5 "
     "--set train.steps=12 --set lr_schedule.warmup_steps=1 --set lr_schedule.decay_steps=12"},
    {"README.md", "program train",
     "build/fourfold program configs/gpt-quickstart.yaml --set parallel.tensor.x=1 --set "
     "parallel.data=1 --set "
     "train.micro_batch_size=4"},
    {"README.md", "error: rank 1", ""},  // rows_watch_test.cpp
    {"README.md", " YAML", ""},          // a drawing
};

/// What a line of a page says, piece by piece, where it is no curve: cells of a row, else all of
/// it.
std::vector<std::string> pieces_of(const std::string& line) {
  for (const char* curve : {"...", "\u2524", "\u2502", "\u2514"})
    if (line.find(curve) != line.npos && line.find("->") == line.npos) return {};
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(" | ", begin), line.size());
    pieces.push_back(line.substr(begin, end - begin));
    begin = end + 3;
  }
  return pieces;
}

TEST_F(Docs, what_a_page_shows_as_output_is_what_the_command_prints) {
  fs::rename(folder_ / "data" / "bible.txt", folder_ / "data" / "short.txt");
  write_file_atomic((folder_ / "data" / "bible.txt").string(), text_of_its_size());
  std::size_t count = 0;
  for (const std::string& page : pages())
    for (const ShownOutput& shown : outputs_of(page)) {
      SCOPED_TRACE(format("{}:{}", page, shown.line));
      const auto from = std::find_if(std::begin(printed), std::end(printed), [&](const Printed& p) {
        return page == p.page && shown.lines.front().starts_with(p.begins);
      });
      ASSERT_NE(from, std::end(printed)) << "no command is known that prints it";
      if (from->command[0] == '\0') continue;
      ++count;
      // Rows are broken elsewhere on a page that is narrower.
      const std::string output = in_one_line(output_of(from->command)), shape = shape_of(output);
      for (const std::string& line : shown.lines) {
        for (const std::string& piece : pieces_of(line))
          EXPECT_NE(shape.find(shape_of(piece)), shape.npos) << "is not printed: " << piece;
        // What a run will be, and where its state lies, does not depend on the machine.
        const bool is_exact = std::ranges::any_of(
            std::array{"run ", "batch ", "data ", "  persistent ", "  feeds ", "  wte.weight "},
            [&](const char* begin) { return line.starts_with(begin); });
        EXPECT_TRUE(!is_exact || output.find(in_one_line(line)) != output.npos) << line;
      }
    }
  EXPECT_EQ(count, 2U);
}

TEST_F(Docs, the_table_of_exit_codes_has_each_code) {
  const std::string page = read_file(FOURFOLD_SOURCE_DIR "/README.md");
  const std::string table = page.substr(page.find("## Exit codes"));
  for (int code = 0; code <= 13; ++code)
    EXPECT_EQ(table.find(format("\n| {} | ", code)) != table.npos, code != 1) << code;
  for (const ExitCode code : {ExitCode::internal, ExitCode::stopped})
    EXPECT_NE(table.find(format("\n| {} | ", static_cast<int>(code))), table.npos);
}

TEST_F(Docs, every_command_has_an_example_of_its_own_with_options_that_it_has) {
  const auto output = [&](const std::string& command) {
    const fs::path folder = folder_ / format("help-{}", ++jobs_);
    fs::create_directories(folder);
    test::LaunchedJob job({"bash", "-c", format("{} {}", FOURFOLD_BINARY, command)},
                          folder.string());
    EXPECT_EQ(job.wait(test::hang_s), 0) << command;
    return job.output();
  };
  static const test::Pattern inner("\n  ([a-z-]+) +[A-Z]"), option(" (--[a-z][a-z-]*|-o)\\b");
  std::size_t count = 0;
  const std::function<void(const std::string&)> look = [&](const std::string& path) {
    const std::string help = output("help " + path);
    for (const char* odd : {"INT:", "FLOAT:", "{false}", " behind "})
      EXPECT_EQ(help.find(odd), help.npos) << path << "\n" << help;
    const auto commands = help.find("Subcommands:");
    if (commands != help.npos)
      for (const test::Match& match : inner.all_in(help.substr(commands)))
        look(path + (path.empty() ? "" : " ") + match[1]);
    if (path.empty()) return;
    const auto begin = help.find("Example:\n  fourfold " + path.substr(0, path.find(' ')));
    ASSERT_NE(begin, help.npos) << path << "\n" << help;
    const std::string example = help.substr(begin);
    if (commands == help.npos) {
      EXPECT_NE(example.find("fourfold " + path), example.npos) << example;
      for (const test::Match& match : option.all_in(example))
        EXPECT_NE(help.substr(0, begin).find(match[1]), help.npos) << path << ": " << match[1];
    }
    ++count;
  };
  look("");
  EXPECT_GE(count, 30U);
}

/// Commands of ours that stand within sentences: "fourfold plan FILE --ranks 16".
std::vector<std::string> commands_in_sentences(const std::string& page) {
  static const test::Pattern code("`(?:build/)?fourfold ([a-z][^`]*)`");
  std::vector<std::string> found;
  for (const test::Match& match : code.all_in(read_file(page))) found.push_back(match[1]);
  return found;
}

TEST_F(Docs, a_command_in_a_sentence_is_one_that_there_is_with_its_options) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(FOURFOLD_SOURCE_DIR)) {
    const std::string page = entry.path().string();
    if (entry.path().filename() != "README.md" || page.find("/build") != page.npos) continue;
    for (const std::string& words : commands_in_sentences(page)) {
      SCOPED_TRACE(format("{}: fourfold {}", page, words));
      static const test::Pattern names("^[a-z-]+( [a-z-]+)?"), option("--[a-z][a-z-]*");
      const auto named = names.first_in(words);
      ASSERT_TRUE(named);
      const std::string& name = named->at(0);
      // The second word may be a value.
      const auto help = [&](const std::string& command) {
        const fs::path output = folder_ / format("help-{}", ++jobs_);
        fs::create_directories(output);
        test::LaunchedJob job({"bash", "-c", format("{} {} --help", FOURFOLD_BINARY, command)},
                              output.string());
        return job.wait(test::hang_s) == 0 ? job.output() : "";
      };
      std::string said = help(name);
      if (said.empty()) said = help(name.substr(0, name.find(' ')));
      EXPECT_NE(said, "") << "there is no such command";
      for (const test::Match& match : option.all_in(words))
        EXPECT_NE(said.find(match[0]), said.npos) << "has no option " << match[0];
      ++count;
    }
  }
  EXPECT_GE(count, 5U);
}

TEST(Scripts, refuse_what_they_do_not_know_before_they_do_anything) {
  for (const char* words : {"data/get-corpus --bible", "scripts/build --tree",
                            "scripts/build --target", "scripts/make-unicode-classes --what"}) {
    const CommandResult result = run_command(std::string(words) + " 2>&1");
    const std::string script(words, std::string_view(words).find(' '));
    EXPECT_EQ(result.code, 2) << words << "\n" << result.text;
    EXPECT_NE(result.text.find("see " + script + " --help\n"), std::string::npos) << result.text;
    EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
  }
}

using GatherPackages = FolderTest;

TEST_F(GatherPackages, touch_no_folder_that_holds_anything) {
  fs::create_directories(path("etc"));
  const CommandResult result = run_command(format("scripts/gather-packages {} 2>&1", path("")));
  EXPECT_EQ(result.code, 11) << result.text;
  EXPECT_NE(result.text.find("is there already; name a new folder"), std::string::npos)
      << result.text;
  EXPECT_TRUE(fs::exists(path("etc")));
}

}  // namespace
}  // namespace fourfold
