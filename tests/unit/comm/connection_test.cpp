#include "comm/connection.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "comm/star.h"
#include "comm/termination.h"
#include "comm/threads.h"

namespace fourfold::comm {
namespace {

struct Pair {
  Connection a, b;
};
Pair connected_pair() {
  Listener listener;
  auto a = connect_to("127.0.0.1", listener.port(), 5);
  auto b = listener.accept(5);
  return {std::move(a.value()), std::move(b.value())};
}

TEST(Connection, messages_arrive_whole_and_in_order_whatever_their_size) {
  auto [a, b] = connected_pair();
  const std::string large(900'000, 'x');
  a.send({'S', ""});
  a.send({'F', large});
  a.send({'D', "last"});
  std::vector<Message> got;
  bool ended = false;
  while (got.size() < 3 && !ended) {
    a.flush();
    for (Message& message : b.receive(ended)) got.push_back(std::move(message));
  }
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].kind, 'S');
  EXPECT_EQ(got[1].text, large);
  EXPECT_EQ(got[2].text, "last");
  EXPECT_FALSE(a.has_unsent());
}

TEST(Connection, the_end_of_the_other_side_is_seen_and_writing_to_it_is_harmless) {
  auto [a, b] = connected_pair();
  a.send({'S', "before"});
  a.close();
  bool ended = false;
  std::vector<Message> got;
  while (!ended)
    for (Message& message : b.receive(ended)) got.push_back(std::move(message));
  ASSERT_EQ(got.size(), 1U);
  for (int i = 0; i < 3; ++i) b.send({'S', "to nobody"});
}

TEST(Connection, a_stranger_who_sends_nonsense_is_shut_out) {
  auto [a, b] = connected_pair();
  a.send({'S', std::string(2 << 20, 'x')});
  bool ended = false;
  for (int i = 0; i < 1000 && !ended; ++i) {
    a.flush();
    EXPECT_TRUE(b.receive(ended).empty());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(ended);
}

TEST(Star, connects_all_to_rank_0) {
  ThreadJob job(4);
  job.run([](World& world) {
    std::vector<Connection> connections =
        connect_star(world, std::vector<std::string>(4, "this host"));
    for (std::size_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(connections[rank].is_open(), (rank == 0) != (world.rank() == Rank(0)));
    if (world.rank() == Rank(0)) {
      for (std::size_t rank = 1; rank < 4; ++rank)
        connections[rank].send({'S', std::to_string(rank)});
    } else {
      const auto message = receive_one(connections[0], 5);
      ASSERT_TRUE(message);
      EXPECT_EQ(message->text, std::to_string(world.rank().index()));
    }
  });
}

TEST(Alarm, sigterm_wakes_instead_of_killing) {
  Alarm alarm;
  alarm.ring();
  EXPECT_FALSE(alarm.answer());
  std::raise(SIGTERM);
  EXPECT_TRUE(alarm.answer());
  EXPECT_FALSE(alarm.answer());
}

}  // namespace
}  // namespace fourfold::comm
