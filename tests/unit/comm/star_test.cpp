#include "comm/star.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/clock.h"

namespace fourfold::comm {
namespace {

Connection call(const Listener& listener) {
  auto connection = connect_to("127.0.0.1", listener.port(), 2);
  EXPECT_TRUE(connection);
  return connection ? std::move(*connection) : Connection();
}

TEST(AcceptRanks, strangers_keep_no_rank_waiting_and_take_no_place) {
  Listener listener;
  std::vector<Connection> strangers;
  for (const std::string text : {"", "other 1", "key", "key 0", "key 3", "key 1x", "key -1",
                                 "key 1 2", "key 99999999999999999999"}) {
    strangers.push_back(call(listener));
    if (!text.empty()) strangers.back().send({hello_of("key", Rank(1)).kind, text});
  }
  strangers.push_back(call(listener));
  strangers.back().send({'?', hello_of("key", Rank(1)).text});
  Connection one = call(listener), two = call(listener);
  one.send(hello_of("key", Rank(1)));
  two.send(hello_of("key", Rank(2)));
  std::vector<Connection> connections(3);
  const double begin = now_s();
  EXPECT_EQ(accept_ranks(listener, "key", 30, connections), 2U);
  EXPECT_LT(now_s() - begin, 5);
  // Each connection is that of its rank.
  connections[2].send({'t', "to two"});
  const auto heard = receive_one(two, 5);
  ASSERT_TRUE(heard);  // the welcome, and then what was sent
  EXPECT_EQ(heard->text, "key");
}

TEST(AcceptRanks, a_caller_that_sends_byte_after_byte_is_not_waited_for) {
  Listener listener;
  Connection stranger = call(listener);
  std::thread talker([&] {
    for (int i = 0; i < 8; ++i) {
      stranger.send({'H', "x"});
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  std::vector<Connection> connections(2);
  const double begin = now_s();
  EXPECT_EQ(accept_ranks(listener, "key", 0.3, connections), 0U);
  EXPECT_LT(now_s() - begin, 5);
  talker.join();
}

TEST(AcceptRanks, the_last_call_of_a_rank_counts) {
  Listener listener;
  Connection first = call(listener), second = call(listener);
  first.send(hello_of("key", Rank(1)));
  second.send(hello_of("key", Rank(1)));
  std::vector<Connection> connections(3);
  EXPECT_EQ(accept_ranks(listener, "key", 0.3, connections), 1U);
  connections[1].send({'t', "still there"});
  const auto welcome = receive_one(second, 5);
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->text, "key");
  bool ended = false;
  while (!ended) first.receive(ended);  // nobody keeps the first one
}

}  // namespace
}  // namespace fourfold::comm
