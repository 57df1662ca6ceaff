#include "screen/log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>

#include "base/file.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "support/pseudo_terminal.h"
#include "unit/run/allocation_counter.h"

namespace fourfold::screen {
namespace {

const std::vector<Cell> cells = {{"step 1/20", 3}, {std::string(90, 'x'), 1}, {"loss 2.5", 2}};

Terminal terminal_on(int descriptor, bool has_color = true) {
  return {.descriptor = descriptor, .has_color = has_color, .is_live = true, .is_unicode = true};
}

/// A log on a terminal of 80 columns and in a file.
class LogOnTerminal : public ::testing::Test {
 protected:
  LogOnTerminal() : out_(fdopen(dup(terminal_.descriptor()), "w")) {}
  ~LogOnTerminal() override {
    std::fclose(out_);
    std::filesystem::remove(path_);
  }
  std::vector<std::string> seen() { return test::seen_lines(terminal_.written()); }

  test::PseudoTerminal terminal_{80};
  std::FILE* out_;
  const std::string path_ = ::testing::TempDir() + "fourfold_log_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(LogOnTerminal, lines_stand_above_the_status_line_which_is_gone_at_the_end) {
  {
    Log log(Level::info, terminal_on(terminal_.descriptor()), out_);
    log.info("first");
    log.status("working");
    log.info("second");
    EXPECT_EQ(seen(), (std::vector<std::string>{"first", "second", "working"}));
  }
  EXPECT_EQ(seen(), (std::vector<std::string>{"first", "second", ""}));
}

TEST_F(LogOnTerminal, a_status_line_never_reaches_the_last_column) {
  Log log(Level::info, terminal_on(terminal_.descriptor()), out_);
  log.status(std::string(200, 's'));
  EXPECT_EQ(seen().back(), std::string(79, 's'));
}

TEST_F(LogOnTerminal, a_line_of_figures_is_cut_on_the_terminal_and_whole_in_the_file) {
  {
    Log log(Level::info, terminal_on(terminal_.descriptor()), out_);
    log.keep(path_);
    log.row(cells);
  }
  EXPECT_EQ(seen()[0], "step 1/20 | loss 2.5");
  EXPECT_TRUE(trim(read_file(path_)).ends_with(" info " + fit(cells, 0))) << read_file(path_);
}

TEST_F(LogOnTerminal, the_file_has_neither_colours_nor_the_status_line) {
  {
    Log log(Level::info, terminal_on(terminal_.descriptor()), out_);
    log.keep(path_);
    log.status("working");
    log.info("a " + styled(Style::green, "good") + " step");
    log.warn("careful");
  }
  const std::string text = read_file(path_);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("working"), std::string::npos);
  EXPECT_NE(text.find(" info a good step\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" warning careful\n"), std::string::npos) << text;
  EXPECT_NE(terminal_.written().find(styled(Style::green, "good")), std::string::npos);
}

TEST_F(LogOnTerminal, without_colour_not_one_is_written) {
  {
    Log log(Level::info, terminal_on(terminal_.descriptor(), false), out_);
    log.info(styled(Style::red, "red"));
    log.warn("careful");
    log.status(styled(Style::dim, "working"));
  }
  EXPECT_EQ(terminal_.written().find("m\x1b"), std::string::npos);
  EXPECT_EQ(terminal_.written().find("\x1b[3"), std::string::npos);
  EXPECT_EQ(seen()[1], "warning: careful");
}

TEST_F(LogOnTerminal, lines_below_the_level_are_left_out_everywhere) {
  {
    Log log(Level::warning, terminal_on(terminal_.descriptor()), out_);
    log.keep(path_);
    log.debug("small");
    log.info("usual");
    log.row(cells);
    log.warn("careful");
  }
  EXPECT_EQ(seen()[0], "warning: careful");
  EXPECT_EQ(split(read_file(path_), '\n').size(), 2U) << read_file(path_);
}

TEST_F(LogOnTerminal, the_same_warning_of_four_ranks_is_said_once_and_counted) {
  {
    Log log(Level::info, terminal_on(terminal_.descriptor()), out_);
    for (int rank = 0; rank < 4; ++rank)
      log.warn_from("[r00" + std::to_string(rank) + "]", "slow disk");
    log.warn_from("[r002]", "another");
    log.row(cells);
  }
  EXPECT_EQ(seen(), (std::vector<std::string>{
                        "warning: [r000] slow disk", "warning: [r002] another",
                        "warning: ... and 3 more ranks: slow disk", "step 1/20 | loss 2.5", ""}));
}

TEST(LogInAFile, plain_lines_without_returns_or_colours) {
  const std::string path = ::testing::TempDir() + "fourfold_log_plain";
  std::FILE* out = std::fopen(path.c_str(), "w");
  {
    const comm::Variable none = [](const std::string&) { return std::nullopt; };
    Log log(Level::info, terminal_of(fileno(out), ColorChoice::automatic, none), out);
    EXPECT_FALSE(log.is_live());
    log.status("working");
    log.row(cells);
    log.warn("careful");
  }
  std::fclose(out);
  EXPECT_EQ(read_file(path), fit(cells, 0) + "\nwarning: careful\n");
  std::filesystem::remove(path);
}

TEST(LogInAFile, whichever_allocation_of_a_line_fails_who_says_it_is_told_and_nobody_else) {
  const std::string screen = ::testing::TempDir() + "fourfold_log_screen",
                    file = ::testing::TempDir() + "fourfold_log_file";
  const std::string line(600, 'x');  // longer than what spdlog has room for without an allocation
  std::FILE* out = std::fopen(screen.c_str(), "w");
  ::testing::internal::CaptureStderr();
  std::int64_t number = 0;
  {
    Log log(Level::info, {.descriptor = fileno(out), .has_color = true}, out);
    log.keep(file, Log::Existing::replace);
    for (bool is_told = true; is_told;) {
      fail_allocation(++number);
      try {
        log.warn(line);
        is_told = false;
      } catch (const std::bad_alloc&) {
      }
      const bool has_failed = allocations_so_far() >= number;
      fail_allocation(-1);
      EXPECT_EQ(is_told, has_failed) << "allocation " << number;
    }
  }
  std::fclose(out);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(number, 4);
  // Once memory is there again, both have the line whole.
  EXPECT_NE(read_file(screen).find(line + "\n"), std::string::npos);
  EXPECT_TRUE(read_file(file).ends_with(" warning " + line + "\n")) << read_file(file);
  for (const std::string& path : {screen, file}) std::filesystem::remove(path);
}

}  // namespace
}  // namespace fourfold::screen
