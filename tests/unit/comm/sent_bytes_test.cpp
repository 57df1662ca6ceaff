// What the rows of collectives say that a member sends, beside messages: each collective is done
// again by messages between threads, from what its row says alone, and these are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/collective.h"
#include "comm/threads.h"

namespace fourfold::comm {
namespace {

using Floats = std::vector<float>;

std::span<std::byte> bytes_of(std::span<float> floats) {
  return std::as_writable_bytes(floats);
}

/// One rank's part in a collective of messages, of a payload that the ranks share evenly.
class ByMessages {
 public:
  ByMessages(World& world, std::size_t payload)
      : world_(world), size_(world.size()), own_(world.rank().index()), all_(payload) {}

  /// Returns what the rank holds after it.
  Floats run(const CollectiveFacts& row, const Floats& held) {
    if (!row.reduces() && row.scatters()) {
      exchange(held);
      return all_;
    }
    if (row.reduces())
      all_ = held;
    else
      std::ranges::copy(held, share(own_).begin());
    if (row.reduces()) reduce();
    if (row.scatters()) return {share(own_).begin(), share(own_).end()};
    gather();
    return all_;
  }

  double sent_bytes() const { return sent_bytes_; }
  double rounds() const { return rounds_; }

 private:
  std::span<float> share(std::size_t number) {
    const std::size_t count = all_.size() / size_;
    return std::span(all_).subspan(number % size_ * count, count);
  }
  /// Sends to the rank so many places on, and takes from the rank so many places back. Some ranks
  /// of every circle send first and some take first, so that none waits for ever.
  void pass(std::size_t places, std::span<float> out, std::span<float> in) {
    const Rank to((own_ + places) % size_), from((own_ + size_ - places) % size_);
    const bool sends_first = own_ < places;
    if (sends_first) world_.send(to, 1, bytes_of(out));
    world_.recv(from, 1, bytes_of(in));
    if (!sends_first) world_.send(to, 1, bytes_of(out));
    sent_bytes_ += static_cast<double>(out.size_bytes());
    ++rounds_;
  }

  /// A ring after which this rank's own share is the sum of all.
  void reduce() {
    Floats more(share(own_).size());
    for (std::size_t k = 1; k < size_; ++k) {
      pass(1, share(own_ + size_ - k), more);
      const std::span<float> sum = share(own_ + 2 * size_ - k - 1);
      for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
    }
  }
  /// A ring that brings every rank the own shares of all.
  void gather() {
    for (std::size_t k = 1; k < size_; ++k)
      pass(1, share(own_ + size_ - k + 1), share(own_ + size_ - k));
  }
  /// A message from each rank to each.
  void exchange(Floats held) {
    const std::size_t count = held.size() / size_;
    const auto of = [&](std::size_t member) {
      return std::span(held).subspan(member % size_ * count, count);
    };
    std::ranges::copy(of(own_), share(own_).begin());
    for (std::size_t k = 1; k < size_; ++k) pass(k, of(own_ + k), share(own_ + size_ - k));
  }

  World& world_;
  std::size_t size_, own_;
  Floats all_;
  double sent_bytes_ = 0, rounds_ = 0;
};

class SentBytes : public testing::TestWithParam<std::size_t> {};

TEST_P(SentBytes, of_each_collective_are_what_its_row_says) {
  const std::size_t ranks = GetParam(), payload = 24 * ranks;
  ThreadJob(ranks).run([&](World& world) {
    GroupSpec spec{"all", {}, 0};
    for (std::size_t i = 0; i < ranks; ++i) spec.members.emplace_back(i);
    world.create_groups({&spec, 1});
    Group& group = world.group(spec.members, spec.name);
    const auto n = static_cast<double>(ranks);
    for (const CollectiveFacts& row : collectives) {
      Floats from(row.bytes_before(payload, ranks));
      for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<float>(1000 * world.rank().index() + i);
      ByMessages messages(world, payload);
      const Floats expected = messages.run(row, from);
      Floats to(row.bytes_after(payload, ranks));
      const Bytes before = bytes_of(from), after = row.is_in_place() ? before : bytes_of(to);
      group.carry_out(row.kind, {&before, 1}, {&after, 1}, DType::f32, Reduction::sum);
      EXPECT_EQ(row.is_in_place() ? from : to, expected) << row.name;

      const double payload_bytes = static_cast<double>(payload) * sizeof(float);
      EXPECT_DOUBLE_EQ(messages.sent_bytes(), row.sent_share(n) * payload_bytes) << row.name;
      EXPECT_DOUBLE_EQ(group.traffic(row.kind).ring_bytes, messages.sent_bytes()) << row.name;
      if (row.path != Path::ring_or_tree) {
        EXPECT_EQ(messages.rounds(), row.steps(n)) << row.name;
      }
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, SentBytes, testing::Values(2, 3, 4, 7),
                         [](const auto& size) { return std::to_string(size.param) + "_ranks"; });

}  // namespace
}  // namespace fourfold::comm
