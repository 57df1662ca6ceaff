#include "screen/patient_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/text.h"

namespace fourfold::screen {
namespace {

class Pipe : public ::testing::Test {
 protected:
  Pipe() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Pipe() override {
    close_reader();
    close(ends_[1]);
  }
  void close_reader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  /// What is there to read now.
  std::string read_all() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t n = 0; (n = ::read(ends_[0], part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<std::size_t>(n));
    return text;
  }
  std::array<int, 2> ends_{-1, -1};
};

std::string line(int number) {
  return std::string(99, static_cast<char>('a' + number % 26)) + "\n";
}

TEST_F(Pipe, a_reader_that_reads_gets_every_line_at_once) {
  PatientOutput output(ends_[1]);
  output.write("one\n");
  EXPECT_EQ(read_all(), "one\n");
  output.finish(0);
  EXPECT_EQ(output.lines_lost(), 0);
}

TEST_F(Pipe, for_a_slow_reader_lines_are_held_back_then_dropped_whole_and_nothing_waits) {
  PatientOutput output(ends_[1]);
  constexpr int lines = 5000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < lines; ++i) output.write(line(i));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(elapsed.count(), 5);
  std::string seen;
  std::thread reader([&] {
    for (int i = 0; i < 100; ++i) {
      seen += read_all();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  output.finish(2);
  reader.join();
  const auto lines_seen = static_cast<std::int64_t>(split(seen, '\n').size()) - 1;
  EXPECT_EQ(lines_seen + output.lines_lost(), lines);
  // What a pipe takes and what is held back: 64 KiB each.
  EXPECT_GT(lines_seen, 1200);
  for (std::int64_t i = 0; i < lines_seen; ++i)
    ASSERT_EQ(seen.substr(static_cast<std::size_t>(i) * 100, 100), line(static_cast<int>(i)));
}

TEST_F(Pipe, a_reader_that_left_costs_all_lines_and_nothing_else) {
  std::signal(SIGPIPE, SIG_IGN);
  PatientOutput output(ends_[1]);
  close_reader();
  for (int i = 0; i < 3; ++i) output.write(line(i));
  output.finish(10);
  EXPECT_EQ(output.lines_lost(), 3);
}

TEST_F(Pipe, the_end_waits_only_so_long) {
  PatientOutput output(ends_[1]);
  for (int i = 0; i < 1000; ++i) output.write(line(i));
  const auto begin = std::chrono::steady_clock::now();
  output.finish(0.1);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(elapsed.count(), 0.1);
  EXPECT_LT(elapsed.count(), 5);
  EXPECT_GT(output.lines_lost(), 300);
}

}  // namespace
}  // namespace fourfold::screen
