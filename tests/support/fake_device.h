// A GPU that is not there: run::cuda::Device on the CPU. Streams run late and side by side, in an
// order drawn from a seed; device memory is out of the host's reach except while the device works,
// begins as NaN, and cannot be mistaken for pinned memory; captures are recorded, checked and
// replayed; any call can be made to fail, and so can any piece of work.
//
// Asked to, it loads code as CUDA does: what is launched for the first time waits until the device
// is idle (CUDA C++ Programming Guide, "Lazy Loading"); so does an allocation. Devices whose work
// waits for one another's, each driven by a thread of its own, then find that none of them can go
// on (standstill.h).
//
// It sees: a host that touches device memory, copies of memory that is not pinned, missing waits as
// far as some drawn order shows them, captures whose streams do not come back, waiting within a
// capture. It does not see: time, and what CUDA itself refuses.
//
// Threads may share it. Work is done by those that made it or that wait for it: threads that only
// enqueue would need fibers of their own for the kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "run/cuda/device.h"
#include "support/standstill.h"

namespace fourfold::test {

class FakeDevice : public run::cuda::Device {
 public:
  using Stream = run::cuda::Stream;
  using Event = run::cuda::Event;
  using Graph = run::cuda::Graph;
  using Work = std::function<void()>;

  explicit FakeDevice(unsigned seed = 1);
  ~FakeDevice() override;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  /// The call of that number from now on, counted from 1, throws as a lost device does; so do all
  /// after it.
  void lose_at_call(std::int64_t number) { calls_left_ = number; }
  /// As many pieces of work are done from now on; the next one is lost, and whoever waits learns of
  /// it.
  void lose_at_work(std::int64_t number) { works_left_ = number; }
  std::int64_t calls = 0, launches = 0, captures = 0, works = 0, waits = 0;
  std::int64_t live() const;        // what was made and not released
  std::int64_t urgent_streams = 0;  // made so far
  /// For each wait so far: how many graphs the device had been given after what was waited for.
  std::vector<std::int64_t> launches_behind_waits;

  /// From now on code is loaded when it is first used.
  void load_late() { loads_late_ = true; }
  std::vector<std::string> loaded() const;  // since then, in order
  /// `code` is about to be launched.
  void load(const std::string& code);

  /// Its work waits for that of others, which have one standstill together. Device memory is then
  /// within reach of whoever works, since several do.
  void join(Standstill& together) { together_ = &together; }

  /// For kernels: what a launch on the stream does; not before `can_run`, where there is one, says
  /// so.
  using CanRun = std::function<bool()>;
  void enqueue(Stream stream, Work work, CanRun can_run = nullptr);

  std::string name() const override { return "a fake GPU"; }
  void enter() override {}
  std::byte* allocate(std::int64_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::byte* allocate_pinned(std::int64_t bytes) override;
  void release_pinned(std::byte* memory) noexcept override;
  Stream create_stream(Priority priority) override;
  void release(Stream stream) noexcept override;
  void synchronize(Stream stream) override;
  bool is_done(Stream stream) override;
  Event create_event(Timing timing) override;
  void release(Event event) noexcept override;
  void record(Event event, Stream stream) override;
  void wait(Stream stream, Event event) override;
  void synchronize(Event event) override;
  bool is_done(Event event) override;
  double elapsed_s(Event begin, Event end) override;
  void copy(const run::cuda::RowCopy& copy, Stream stream) override;
  void clear(std::byte* memory, std::int64_t pitch, std::int64_t row_bytes, std::int64_t rows,
             Stream stream) override;
  void begin_capture(Stream stream) override;
  Graph end_capture(Stream stream) override;
  void abandon_capture(Stream stream) noexcept override;
  void release(Graph graph) noexcept override;
  void launch(Graph graph, Stream stream) override;
  void push_range(const char* name) override;
  void pop_range() override;
  std::vector<std::string> ranges;  // pushed so far
  std::int64_t open_ranges = 0;

 private:
  struct Point;  // of a stream: something that happens once
  struct Queue;
  struct Mark;
  struct Captured;
  struct Node;
  struct Block {
    std::int64_t bytes = 0;
    bool is_pinned = false;
  };

  using Lock = std::lock_guard<std::recursive_mutex>;

  void count(const char* call);
  void push(Stream stream, Work work, CanRun can_run = nullptr);
  void add(Stream stream, Node node);
  static bool may_run(const Node& node);
  bool run_one();
  void run_until(const std::function<bool()>& is_done, const std::string& why);
  void wait_until_idle(const std::string& why);
  void stand(std::int64_t seen, const std::string& why);
  std::int64_t moves() const { return together_ == nullptr ? 0 : together_->moves(); }
  void has_moved();
  void do_work(const Work& work);
  void run_graph(const Captured& graph);
  void require_memory(const std::byte* memory, std::int64_t bytes, bool may_be_pinned) const;
  bool is_pinned(const std::byte* memory) const;
  void set_access(bool is_open) const;
  static Queue* queue_of(Stream stream);
  static Mark* mark_of(Event event);
  static Captured* captured_of(Graph graph);

  mutable std::recursive_mutex mutex_;  // kernels and their launches call back
  std::set<std::thread::id> workers_{std::this_thread::get_id()};  // who does work
  std::minstd_rand random_;
  std::map<const std::byte*, Block> memory_;
  std::map<Queue*, std::unique_ptr<Queue>> queues_;
  std::map<Mark*, std::unique_ptr<Mark>> marks_;
  std::map<Captured*, std::unique_ptr<Captured>> graphs_;
  std::unique_ptr<Captured> capture_;  // under way
  Queue* capture_origin_ = nullptr;
  std::optional<std::int64_t> calls_left_, works_left_;
  bool is_lost_ = false, loads_late_ = false;
  std::set<std::string> known_code_;
  std::vector<std::string> loaded_;
  Standstill* together_ = nullptr;
  double clock_s_ = 0;
};

}  // namespace fourfold::test
