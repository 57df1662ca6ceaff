// Streams, events, faults and copies; no kernels, so that it runs under ThreadSanitizer too.
#include "run/cpu.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "run/executor.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

using namespace std::chrono_literals;

/// Calls a function for every feed.
class FunctionFeeder : public Feeder {
 public:
  using Function =
      std::function<void(std::int64_t step, std::int64_t first, std::span<std::int32_t>)>;
  explicit FunctionFeeder(Function function) : function_(std::move(function)) {}
  void feed(const Input&, const Samples& samples, std::span<std::byte> into) override {
    function_(samples.step, samples.first, as<std::int32_t>(into));
  }

 private:
  Function function_;
};

/// Fills all ids of a feed with 100 step + first.
void fill_number(std::int64_t step, std::int64_t first, std::span<std::int32_t> ids) {
  std::ranges::fill(ids, static_cast<std::int32_t>(100 * step + first));
}

TEST(CpuBackend, streams_run_side_by_side) {
  // Each of two feeds waits for the other to have begun: one stream after the other would never
  // end.
  Handmade made(op::ProgramKind::train);
  const program::Feeds feeds{2, 1, 0, 1};
  const auto a = made.tokens("a", feeds, 4), b = made.tokens("b", feeds, 4);
  made.add("left", made.feed(a, 0));
  made.add("right", made.feed(b, 1));
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
  bool met = true;
  FunctionFeeder feeder([&](std::int64_t, std::int64_t, std::span<std::int32_t>) {
    std::unique_lock lock(mutex);
    ++begun;
    changed.notify_all();
    met = changed.wait_for(lock, 20s, [&] { return begun == 2; }) && met;
  });
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  executor.run(op::ProgramKind::train, {}, &feeder);
  EXPECT_TRUE(met);
}

TEST(CpuBackend, a_wait_holds_its_stream_until_the_event_is_recorded) {
  Handmade made(op::ProgramKind::train);
  const program::Feeds feeds{1, 1, 0, 1};
  const auto fed = made.tokens("fed", feeds, 4), copied = made.tokens("copied", feeds, 4);
  const auto ready = made.event();
  made.add("feed", made.feed(fed));
  made.add("feed", program::Record{ready});
  made.add("math", program::Wait{ready});
  made.copy("math", fed, copied);
  FunctionFeeder feeder([](std::int64_t step, std::int64_t micro, std::span<std::int32_t> ids) {
    std::this_thread::sleep_for(20ms);
    fill_number(step, micro, ids);
  });
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  for (std::int64_t step = 1; step <= 3; ++step) {
    executor.run(op::ProgramKind::train, {.step = step}, &feeder);
    EXPECT_EQ(as<std::int32_t>(executor.bytes(op::ProgramKind::train, "copied"))[3], 100 * step);
  }
}

TEST(CpuBackend, events_order_streams_in_every_one_of_many_runs) {
  // A value travels math -> other -> math -> other ..., each hop ordered by events alone.
  Handmade made(op::ProgramKind::train);
  const program::Feeds feeds{1, 1, 0, 1};
  std::vector<program::BufferId> hops;
  for (int hop = 0; hop < 8; ++hop)
    hops.push_back(made.tokens("hop" + std::to_string(hop), feeds, 16));
  made.add("math", made.feed(hops[0]));
  for (std::size_t hop = 1; hop < hops.size(); ++hop) {
    const auto ready = made.event();
    made.add(hop % 2 == 1 ? "math" : "other", program::Record{ready});
    made.add(hop % 2 == 1 ? "other" : "math", program::Wait{ready});
    made.copy(hop % 2 == 1 ? "other" : "math", hops[hop - 1], hops[hop]);
  }
  FunctionFeeder feeder(fill_number);
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  for (std::int64_t step = 0; step < 500; ++step) {
    executor.run(op::ProgramKind::train, {.step = step}, &feeder);
    ASSERT_EQ(as<std::int32_t>(executor.bytes(op::ProgramKind::train, "hop7"))[15], 100 * step);
  }
}

TEST(CpuBackend, a_fault_on_one_stream_releases_the_others_and_skips_what_is_left) {
  Handmade made(op::ProgramKind::train);
  const program::Feeds feeds{2, 1, 0, 1};
  const auto a = made.tokens("a", feeds, 4), b = made.tokens("b", feeds, 4);
  const auto first = made.event(), second = made.event();
  made.add("feed", made.feed(a, 0));
  made.add("feed", program::Record{first});
  made.add("math", program::Wait{first});
  made.add("math", made.feed(b, 1));
  made.add("math", program::Record{second});
  made.add("feed", program::Wait{second});
  bool fail = true;
  int later = 0;
  FunctionFeeder feeder([&](std::int64_t, std::int64_t micro, std::span<std::int32_t>) {
    if (micro == 1) ++later;
    if (micro != 0 || !fail) return;
    std::this_thread::sleep_for(20ms);  // so that the other stream waits by now
    throw UserError(ExitCode::bad_data, "the disk is gone");
  });
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  EXPECT_THROW(executor.run(op::ProgramKind::train, {}, &feeder), UserError);
  EXPECT_EQ(later, 0);
  EXPECT_THROW(
      executor.run_stepwise(op::ProgramKind::train, {}, &feeder, [](const auto&, std::size_t) {}),
      UserError);
  fail = false;
  executor.run(op::ProgramKind::train, {}, &feeder);
  EXPECT_EQ(later, 1) << "the backend works again after a fault";
}

TEST(CpuBackend, a_program_with_feeds_but_no_feeder_faults) {
  Handmade made(op::ProgramKind::train);
  made.add("feed", made.feed(made.tokens("a", {1, 1, 0, 1}, 4)));
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  EXPECT_THROW(executor.run(op::ProgramKind::train, {}), InternalError);
}

TEST(CpuBackend, feeds_get_the_input_and_the_samples_of_the_step_that_are_this_ranks) {
  class Recorder : public Feeder {
   public:
    void feed(const Input& input, const Samples& samples, std::span<std::byte> into) override {
      EXPECT_EQ(input, (Input{"pixels", DType::u8, {3, 5}}));
      EXPECT_EQ(samples, (Samples{7, 2 * 4 + 1, 2}));
      EXPECT_EQ(into.size(), 30);
      called = true;
    }
    bool called = false;
  } recorder;
  Handmade made(op::ProgramKind::train);
  made.edit().feeds = {3, 4, 1, 2};
  made.edit().inputs = {{"labels", DType::i32, {}}, {"pixels", DType::u8, {3, 5}}};
  const auto pixels = made.buffer("pixels", DType::u8, {2, 3, 5}, Handmade::Region::transient,
                                  Handmade::Role::feed);
  made.add("feed", made.feed(pixels, 2));
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  executor.run(op::ProgramKind::train, {.step = 7}, &recorder);
  EXPECT_TRUE(recorder.called);
}

TEST(CpuBackend, steps_of_either_parity_have_their_own_copies) {
  Handmade made(op::ProgramKind::train);
  const program::Feeds feeds{1, 1, 0, 1};
  made.edit().feeds = feeds;
  made.edit().inputs = {{"two", DType::i32, {4}}};
  const auto two = made.buffer("two", DType::i32, {1, 4}, Handmade::Region::transient,
                               Handmade::Role::feed, true);
  const auto out = made.buffer("out", DType::i32, {1, 4}, Handmade::Region::transient,
                               Handmade::Role::output, true);
  made.add("math", made.feed(two));
  made.copy("math", two, out);
  FunctionFeeder feeder(fill_number);
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  executor.run(op::ProgramKind::train, {.step = 4}, &feeder);
  executor.run(op::ProgramKind::train, {.step = 5}, &feeder);
  EXPECT_EQ(as<std::int32_t>(executor.bytes(op::ProgramKind::train, "out", 0))[0], 400);
  EXPECT_EQ(as<std::int32_t>(executor.bytes(op::ProgramKind::train, "out", 1))[0], 500);
}

TEST(CpuBackend, a_copy_cuts_rows_out_of_a_matrix_and_puts_them_back) {
  Handmade made(op::ProgramKind::train);
  const auto matrix = made.floats("matrix", 12);  // (3, 4)
  const auto block = made.floats("block", 6);     // (3, 2): its middle columns
  const auto back = made.floats("back", 12);
  const program::Slice middle{matrix, 4, 3, 8, 16};
  made.add("math", program::Copy{middle, made.whole(block)});
  made.add("math", program::Copy{made.whole(block), {back, 4, 3, 8, 16}});
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  const auto in = as<float>(executor.bytes(op::ProgramKind::train, "matrix"));
  std::iota(in.begin(), in.end(), 0.0F);
  executor.run(op::ProgramKind::train, {});
  const auto cut = as<float>(executor.bytes(op::ProgramKind::train, "block"));
  EXPECT_EQ(std::vector<float>(cut.begin(), cut.end()), (std::vector<float>{1, 2, 5, 6, 9, 10}));
  const auto put = as<float>(executor.bytes(op::ProgramKind::train, "back"));
  EXPECT_EQ(std::vector<float>(put.begin(), put.end()),
            (std::vector<float>{0, 1, 2, 0, 0, 5, 6, 0, 0, 9, 10, 0}));
}

TEST(CopyRows, rows_of_both_sides_may_have_different_lengths) {
  std::vector<char> from = {'a', 'b', 'c', '.', 'd', 'e', 'f', '.'};
  std::vector<char> to(9, '-');
  copy_rows({reinterpret_cast<std::byte*>(from.data()), 2, 3, 4},
            {reinterpret_cast<std::byte*>(to.data()), 3, 2, 3});
  EXPECT_EQ(std::string(to.begin(), to.end()), "ab-cd-ef-");
}

TEST(CpuBackend, collectives_of_one_rank_are_copies) {
  Handmade made(op::ProgramKind::train);
  const auto data = made.floats("data", 4), gathered = made.floats("gathered", 4),
             scattered = made.floats("scattered", 4), exchanged = made.floats("exchanged", 4);
  const program::GroupId group(0);
  made.add("comm", program::AllReduce{group, op::Reduction::sum, {made.whole(data)}});
  made.add("comm", program::AllGather{group, {made.whole(data)}, {made.whole(gathered)}});
  made.add("comm", program::ReduceScatter{
                       group, op::Reduction::sum, {made.whole(data)}, {made.whole(scattered)}});
  made.add("comm", program::AllToAll{group, {made.whole(data)}, {made.whole(exchanged)}});
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  std::ranges::fill(as<float>(executor.bytes(op::ProgramKind::train, "data")), 3.5F);
  executor.run(op::ProgramKind::train, {});
  for (const char* name : {"data", "gathered", "scattered", "exchanged"})
    EXPECT_EQ(as<float>(executor.bytes(op::ProgramKind::train, name))[3], 3.5F) << name;
}

/// What the user reads when a bundle cannot be bound.
std::string refusal(const Handmade& made) {
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  try {
    Executor executor(bundle, backend);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    return error.what();
  }
  return "";
}

TEST(CpuBackend, programs_for_several_ranks_are_refused_by_name) {
  Handmade reduce(op::ProgramKind::train);
  reduce.edit().groups.push_back({"z", MeshId(0), {AxisId(0)}, {Rank(0), Rank(1)}});
  reduce.add("comm",
             program::AllReduce{
                 program::GroupId(1), op::Reduction::sum, {reduce.whole(reduce.floats("a", 4))}});
  EXPECT_NE(refusal(reduce).find("one rank runs here; program train"), std::string::npos);
  EXPECT_NE(refusal(reduce).find("group z of 2 ranks"), std::string::npos);
  Handmade send(op::ProgramKind::train);
  send.add("comm", program::Send{Rank(3), 0, send.whole(send.floats("a", 4))});
  EXPECT_NE(refusal(send).find("program train sends to rank 3"), std::string::npos);
  Handmade receive(op::ProgramKind::train);
  receive.add("comm", program::Recv{Rank(2), 0, receive.whole(receive.floats("a", 4))});
  EXPECT_NE(refusal(receive).find("receives from rank 2"), std::string::npos);
}

TEST(CpuBackend, a_wait_before_its_record_is_refused_instead_of_hanging) {
  Handmade made(op::ProgramKind::train);
  const auto event = made.event();
  made.add("math", program::Wait{event});
  made.add("other", program::Record{event});
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  EXPECT_THROW(Executor(bundle, backend), InternalError);
}

TEST(CpuBackend, a_backend_dropped_in_the_middle_of_a_program_does_not_hang) {
  Handmade made(op::ProgramKind::train);
  const auto event = made.event();
  made.add("other", program::Record{event});
  made.add("math", program::Wait{event});
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  backend.bind(bundle);
  backend.begin(ProgramId(0), {}, nullptr);
  backend.issue(ProgramId(0), 1);
}

TEST(CpuBackend, programs_of_a_bundle_share_persistent_memory_and_one_thread_per_stream_name) {
  Handmade write(op::ProgramKind::init), read(op::ProgramKind::train);
  const program::Feeds feeds{1, 1, 0, 1};
  for (Handmade* made : {&write, &read}) {
    made->buffer("kept", DType::i32, {1, 4}, Handmade::Region::persistent);
    made->tokens("passing", feeds, 4);
  }
  const program::BufferId kept(0), passing(1);
  write.add("math", write.feed(passing));
  write.copy("math", passing, kept);
  read.add("other",
           read.feed(passing));  // so that "math" has another id than in the first program
  read.add("math", read.feed(passing));
  read.copy("math", kept, passing);
  std::vector<std::thread::id> threads;
  std::mutex mutex;
  FunctionFeeder feeder([&](std::int64_t step, std::int64_t micro, std::span<std::int32_t> ids) {
    const std::scoped_lock lock(mutex);
    threads.push_back(std::this_thread::get_id());
    fill_number(step, micro, ids);
  });
  const program::Bundle bundle = Handmade::bundle_of({write.program(), read.program()});
  CpuBackend backend;
  Executor executor(bundle, backend);
  executor.run(op::ProgramKind::init, {.step = 9}, &feeder);
  executor.run_stepwise(op::ProgramKind::train, {.step = 1}, &feeder,
                        [](const auto&, std::size_t) {});
  EXPECT_EQ(as<std::int32_t>(executor.bytes(op::ProgramKind::train, "passing"))[0], 900);
  ASSERT_EQ(threads.size(), 3);
  EXPECT_EQ(threads[0], threads[2]) << "the math stream of both programs";
  EXPECT_NE(threads[0], threads[1]);
}

TEST(CpuBackend, pages_that_no_program_wrote_keep_their_paint) {
  Handmade made(op::ProgramKind::train);
  const program::Feeds feeds{1, 1, 0, 1};  // 4 KiB of ids
  const auto touched = made.tokens("touched", feeds, 1024);
  made.tokens("untouched", feeds, 1024);
  made.add("math", made.feed(touched));
  FunctionFeeder feeder(fill_number);
  const program::Bundle bundle = made.bundle();
  CpuBackend backend({.fresh = CpuOptions::Fresh::paint});
  Executor executor(bundle, backend);
  EXPECT_EQ(backend.pages(Handmade::Region::transient).untouched, 2);
  executor.run(op::ProgramKind::train, {}, &feeder);
  EXPECT_EQ(backend.pages(Handmade::Region::transient).untouched, 1);
}

}  // namespace
}  // namespace fourfold::run
