// Event files byte for byte, and what a disk that fails does to them.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "interop/tensorboard_events.h"
#include "interop/tensorboard_log.h"
#include "interop/tensorboard_writer.h"
#include "support/simulated_disk.h"

namespace fourfold::interop {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

TEST(Crc32c, the_check_values_of_the_standard_hold) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(masked_crc32c("123456789"), 0xC78AB0E5U);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
}

// Made by TensorBoard's own classes, and read back by a general decoder of protocol buffers.
TEST(TensorboardEvents, records_have_the_bytes_of_tensorboard) {
  EXPECT_EQ(hex(file_version_record(1000)),
            "1800000000000000a37f4b22090000000000408f401a0d627261696e2e4576656e743a3273ae6b56");
  const Scalar loss{"loss", 2.5};
  EXPECT_EQ(hex(scalars_record({1001, 7}, std::span(&loss, 1))),
            "1a00000000000000129bd82d090000000000488f4010072a0d0a0b0a046c6f737315000020400099b07a");
  EXPECT_EQ(
      hex(text_record({1002, 7}, "sample/text_summary", "hello")),
      "3f0000000000000051657661090000000000508f4010072a320a300a1373616d706c652f746578745f73756d"
      "6d6172794a080a060a0474657874420f0807120412020801420568656c6c6f4fa1398e");
}

TEST(TensorboardEvents, sizes_beyond_one_byte_are_varints) {
  const std::string text(300, 'x');
  const std::string record = text_record({0, 1}, "t", text);
  EXPECT_NE(record.find(std::string("\x42\xac\x02") + text), std::string::npos);
}

class TensorboardDisk : public testing::Test {
 protected:
  static TensorboardWriter::Options options() {
    return {.folder = "/tb", .host = "host", .flush_interval_s = 0.001, .pause_s = 0};
  }
  TensorboardWriter::Warn warn() {
    return [this](const std::string& text) { warnings_.push_back(text); };
  }
  /// All files, one after the other.
  std::string written() {
    std::string all;
    if (!disk_.exists("/tb")) return all;
    for (const FileSystem::Entry& entry : disk_.list("/tb"))
      all += read_text(disk_, "/tb/" + entry.name);
    return all;
  }
  static std::int64_t count(const std::string& text, const std::string& word) {
    std::int64_t found = 0;
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
    return found;
  }

  test::SimulatedDisk disk_;
  std::vector<std::string> warnings_;
};

TEST_F(TensorboardDisk, everything_is_written_in_order_behind_the_version) {
  std::string expected;
  {
    TensorboardWriter writer(disk_, options(), warn());
    for (int step = 1; step <= 100; ++step) {
      const Scalar scalar{"a", static_cast<double>(step)};
      expected += scalars_record({0, step}, std::span(&scalar, 1));
      writer.add(scalars_record({0, step}, std::span(&scalar, 1)));
    }
    EXPECT_EQ(writer.finish(), 0);
  }
  const std::string all = written();
  EXPECT_EQ(count(all, "brain.Event:2"), 1);
  EXPECT_EQ(all.substr(all.size() - expected.size()), expected);
  EXPECT_NE(disk_.list("/tb")[0].name.find("tfevents"), std::string::npos);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TensorboardDisk, losses_of_averages_of_the_weights_have_a_tag_of_their_own) {
  {
    TensorboardLog log(disk_, "/tb", 0, warn());
    train::StepMetrics metrics;
    metrics.unit = {"tokens", "tok"};
    metrics.step = 1;
    metrics.evaluation = train::Evaluation{.loss = 2, .items = 4};
    log.step(metrics);
    EXPECT_TRUE(warnings_.empty());
    metrics.step = 2;
    metrics.evaluation->is_of_averages = true;
    log.step(metrics);
  }
  const std::string all = written();
  EXPECT_EQ(count(all, "val/loss"), 2);
  EXPECT_EQ(count(all, "val/loss_of_averages"), 1);
  EXPECT_LT(all.find("val/loss"), all.find("val/loss_of_averages"));
}

TEST_F(TensorboardDisk, row_58_a_disk_that_fails_costs_records_that_are_counted_and_one_warning) {
  // One failure at each operation: making the folder, making the file, its first record, any other.
  for (std::int64_t at = 0; at < 6; ++at) {
    SCOPED_TRACE(at);
    test::SimulatedDisk disk;
    warnings_.clear();
    disk.set_plan({.kill_at = {}, .fail_at = at, .error = ENOSPC, .times = 1});
    std::int64_t dropped = 0;
    {
      TensorboardWriter writer(disk, options(), warn());
      for (int i = 0; i < 8; ++i) {
        writer.add("record<" + std::to_string(i) + ">");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      dropped = writer.finish();
    }
    std::string all;
    for (const FileSystem::Entry& entry : disk.list("/tb"))
      all += read_text(disk, "/tb/" + entry.name);
    // Whole names: any single byte may also stand in a checksum or in the time that begins a file.
    std::int64_t kept = 0;
    for (int i = 0; i < 8; ++i) {
      const std::int64_t copies = count(all, "record<" + std::to_string(i) + ">");
      EXPECT_LE(copies, 1) << i;
      kept += copies;
    }
    EXPECT_GE(dropped, 1);
    // A write that is cut off may have brought whole records before.
    EXPECT_GE(kept, 8 - dropped);
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_NE(warnings_[0].find("the run goes on"), std::string::npos);
  }
}

TEST_F(TensorboardDisk, row_58_a_disk_that_never_works_stops_nothing) {
  disk_.set_plan({.kill_at = {}, .fail_at = 0, .error = EIO, .times = 1000000});
  TensorboardWriter writer(disk_, options(), warn());
  for (int i = 0; i < 500; ++i) writer.add("record");
  EXPECT_EQ(writer.finish(), 500);
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(TensorboardDisk, row_58_a_queue_that_is_full_drops_what_comes) {
  TensorboardWriter::Options slow = options();
  slow.flush_interval_s = 1000;
  slow.most_queued = 100;
  std::int64_t dropped = 0;
  {
    TensorboardWriter writer(disk_, slow, warn());
    for (int i = 0; i < 30; ++i) writer.add("0123456789");
    dropped = writer.finish();
  }
  EXPECT_EQ(dropped, 20);
  EXPECT_EQ(count(written(), "0123456789"), 10);
}

}  // namespace
}  // namespace fourfold::interop
