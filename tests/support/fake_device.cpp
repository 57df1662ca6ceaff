#include "support/fake_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::test {
namespace {

constexpr std::int64_t page_bytes = 4096;
constexpr int poison = 0xFF;  // NaN in floats
constexpr double work_s = 1e-6;

std::size_t whole_pages(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + page_bytes - 1) / page_bytes * page_bytes);
}

}  // namespace

struct FakeDevice::Point {
  bool has_happened = false;
  double time_s = 0;
  const Captured* capture = nullptr;  // whose part it is
};

struct FakeDevice::Node {
  Work work = nullptr;
  std::shared_ptr<Point> point = std::make_shared<Point>();
  std::vector<std::shared_ptr<Point>> behind = {};  // what must have happened
  CanRun can_run = nullptr;
};

struct FakeDevice::Queue {
  std::deque<Node> nodes;
  bool is_captured = false;
  std::vector<std::shared_ptr<Point>> tail;  // in a capture: after what the next node stands
};

struct FakeDevice::Mark {
  Timing timing = Timing::off;
  std::shared_ptr<Point> point;  // as recorded last
  std::int64_t launches = 0;     // before that
};

struct FakeDevice::Captured {
  std::vector<Node> nodes;  // each after those it stands after
};

FakeDevice::FakeDevice(unsigned seed) : random_(seed) {}

FakeDevice::~FakeDevice() {
  for (const auto& [memory, block] : memory_)
    munmap(const_cast<std::byte*>(memory), whole_pages(block.bytes));
}

std::int64_t FakeDevice::live() const {
  const Lock lock(mutex_);
  return static_cast<std::int64_t>(memory_.size() + queues_.size() + marks_.size() +
                                   graphs_.size());
}

void FakeDevice::count(const char* call) {
  ++calls;
  if (calls_left_ && --*calls_left_ <= 0) is_lost_ = true;
  if (is_lost_) throw UserError(ExitCode::environment, format("{}: the GPU was lost", call));
  // A device works while the host goes on, or does not.
  if (!workers_.contains(std::this_thread::get_id())) return;
  while (random_() % 2 == 0 && run_one()) {
  }
}

// --- code

std::vector<std::string> FakeDevice::loaded() const {
  const Lock lock(mutex_);
  return loaded_;
}

void FakeDevice::load(const std::string& code) {
  const Lock lock(mutex_);
  if (!loads_late_ || !known_code_.insert(code).second) return;
  loaded_.push_back(ranges.empty() ? code : format("{} for {}", code, ranges.back()));
  wait_until_idle("loads " + loaded_.back());
}

void FakeDevice::wait_until_idle(const std::string& why) {
  run_until(
      [&] {
        return std::ranges::all_of(queues_,
                                   [](const auto& one) { return one.second->nodes.empty(); });
      },
      why);
}

// --- memory

std::byte* FakeDevice::allocate(std::int64_t bytes) {
  const Lock lock(mutex_);
  count("cudaMalloc");
  require(capture_ == nullptr, "nothing is allocated within a capture");
  if (loads_late_) wait_until_idle("allocates");
  void* memory =
      mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "the host has memory for a fake device");
  std::memset(memory, poison, whole_pages(bytes));
  if (together_ == nullptr) mprotect(memory, whole_pages(bytes), PROT_NONE);
  memory_[static_cast<std::byte*>(memory)] = {bytes, false};
  return static_cast<std::byte*>(memory);
}

void FakeDevice::release(std::byte* memory) noexcept {
  const Lock lock(mutex_);
  munmap(memory, whole_pages(memory_.at(memory).bytes));
  memory_.erase(memory);
}

std::byte* FakeDevice::allocate_pinned(std::int64_t bytes) {
  const Lock lock(mutex_);
  count("cudaHostAlloc");
  void* memory =
      mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "the host has memory for a fake device");
  memory_[static_cast<std::byte*>(memory)] = {bytes, true};
  return static_cast<std::byte*>(memory);
}

void FakeDevice::release_pinned(std::byte* memory) noexcept {
  release(memory);
}

bool FakeDevice::is_pinned(const std::byte* memory) const {
  return std::prev(memory_.upper_bound(memory))->second.is_pinned;
}

void FakeDevice::require_memory(const std::byte* memory, std::int64_t bytes,
                                bool may_be_pinned) const {
  auto place = memory_.upper_bound(memory);
  require(place != memory_.begin(), "a copy is of device or pinned memory");
  --place;
  require(memory + bytes <= place->first + place->second.bytes,
          "a copy is of device or pinned memory");
  require(may_be_pinned || !place->second.is_pinned, "this is device memory");
}

void FakeDevice::set_access(bool is_open) const {
  if (together_ != nullptr) return;
  for (const auto& [memory, block] : memory_)
    if (!block.is_pinned)
      mprotect(const_cast<std::byte*>(memory), whole_pages(block.bytes),
               is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void FakeDevice::copy(const run::cuda::RowCopy& copy, Stream stream) {
  const Lock lock(mutex_);
  count("cudaMemcpy2DAsync");
  require(copy.row_bytes <= copy.to_pitch && copy.row_bytes <= copy.from_pitch,
          "rows do not overlap");
  const auto extent = [&](std::int64_t pitch) { return (copy.rows - 1) * pitch + copy.row_bytes; };
  require_memory(copy.from, extent(copy.from_pitch), true);
  require_memory(copy.to, extent(copy.to_pitch), true);
  load(format("a copy{} {} the host", copy.rows == 1 ? "" : " of rows",
              is_pinned(copy.from) ? "from"
              : is_pinned(copy.to) ? "to"
                                   : "without"));
  push(stream, [copy] {
    for (std::int64_t row = 0; row < copy.rows; ++row)
      std::memcpy(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch,
                  static_cast<std::size_t>(copy.row_bytes));
  });
}

void FakeDevice::clear(std::byte* memory, std::int64_t pitch, std::int64_t row_bytes,
                       std::int64_t rows, Stream stream) {
  const Lock lock(mutex_);
  count("cudaMemset2DAsync");
  require_memory(memory, (rows - 1) * pitch + row_bytes, false);
  load(rows == 1 ? "a clear" : "a clear of rows");
  push(stream, [=] {
    for (std::int64_t row = 0; row < rows; ++row)
      std::memset(memory + row * pitch, 0, static_cast<std::size_t>(row_bytes));
  });
}

// --- streams and events

FakeDevice::Queue* FakeDevice::queue_of(Stream stream) {
  return reinterpret_cast<Queue*>(stream);
}
FakeDevice::Mark* FakeDevice::mark_of(Event event) {
  return reinterpret_cast<Mark*>(event);
}
FakeDevice::Captured* FakeDevice::captured_of(Graph graph) {
  return reinterpret_cast<Captured*>(graph);
}

FakeDevice::Stream FakeDevice::create_stream(Priority priority) {
  const Lock lock(mutex_);
  urgent_streams += priority == Priority::urgent ? 1 : 0;
  count("cudaStreamCreate");
  auto queue = std::make_unique<Queue>();
  Queue* const made = queue.get();
  queues_[made] = std::move(queue);
  return reinterpret_cast<Stream>(made);
}

void FakeDevice::release(Stream stream) noexcept {
  const Lock lock(mutex_);
  queues_.erase(queue_of(stream));
}

FakeDevice::Event FakeDevice::create_event(Timing timing) {
  const Lock lock(mutex_);
  count("cudaEventCreate");
  auto mark = std::make_unique<Mark>();
  mark->timing = timing;
  Mark* const made = mark.get();
  marks_[made] = std::move(mark);
  return reinterpret_cast<Event>(made);
}

void FakeDevice::release(Event event) noexcept {
  const Lock lock(mutex_);
  marks_.erase(mark_of(event));
}

void FakeDevice::enqueue(Stream stream, Work work, CanRun can_run) {
  const Lock lock(mutex_);
  count("cudaLaunchKernel");
  push(stream, std::move(work), std::move(can_run));
}

void FakeDevice::push(Stream stream, Work work, CanRun can_run) {
  add(stream, {.work = std::move(work), .can_run = std::move(can_run)});
}

void FakeDevice::add(Stream stream, Node node) {
  has_moved();
  Queue& queue = *queues_.at(queue_of(stream));
  if (!queue.is_captured) {
    queue.nodes.push_back(std::move(node));
    return;
  }
  node.point->capture = capture_.get();
  node.behind = std::exchange(queue.tail, {node.point});
  capture_->nodes.push_back(std::move(node));
}

void FakeDevice::record(Event event, Stream stream) {
  const Lock lock(mutex_);
  count("cudaEventRecord");
  const auto point = std::make_shared<Point>();
  add(stream, {.point = point});
  Mark& mark = *marks_.at(mark_of(event));
  mark.point = point;
  mark.launches = launches;
}

void FakeDevice::wait(Stream stream, Event event) {
  const Lock lock(mutex_);
  count("cudaStreamWaitEvent");
  const std::shared_ptr<Point> point = marks_.at(mark_of(event))->point;
  if (point == nullptr) return;
  Queue& queue = *queues_.at(queue_of(stream));
  const bool is_of_capture = capture_ != nullptr && point->capture == capture_.get();
  require(point->capture == nullptr || is_of_capture,
          "an event of a capture is waited for within that capture");
  require(!queue.is_captured || is_of_capture,
          "a captured stream waits for events of its capture alone");
  if (!is_of_capture) return add(stream, {.behind = {point}});
  queue.is_captured = true;
  queue.tail.push_back(point);
}

void FakeDevice::synchronize(Stream stream) {
  const Lock lock(mutex_);
  workers_.insert(std::this_thread::get_id());
  count("cudaStreamSynchronize");
  ++waits;
  launches_behind_waits.push_back(0);
  Queue& queue = *queues_.at(queue_of(stream));
  require(!queue.is_captured, "nobody waits for a captured stream");
  run_until([&] { return queue.nodes.empty(); }, "waits for a stream");
  if (is_lost_) throw UserError(ExitCode::environment, "cudaStreamSynchronize: the GPU was lost");
}

/// Each look finds the device a little further.
bool FakeDevice::is_done(Stream stream) {
  const Lock lock(mutex_);
  workers_.insert(std::this_thread::get_id());
  count("cudaStreamQuery");
  const Queue& queue = *queues_.at(queue_of(stream));
  require(!queue.is_captured, "nobody asks for a captured stream");
  const std::int64_t seen = moves();
  if (together_ != nullptr && !queue.nodes.empty() && !run_one()) stand(seen, "asks for a stream");
  return queue.nodes.empty();
}

bool FakeDevice::is_done(Event event) {
  const Lock lock(mutex_);
  workers_.insert(std::this_thread::get_id());
  count("cudaEventQuery");
  const std::shared_ptr<Point> point = marks_.at(mark_of(event))->point;
  const std::int64_t seen = moves();
  if (together_ != nullptr && point != nullptr && !point->has_happened && !run_one())
    stand(seen, "asks for an event");
  return point == nullptr || point->has_happened;
}

void FakeDevice::synchronize(Event event) {
  const Lock lock(mutex_);
  workers_.insert(std::this_thread::get_id());
  count("cudaEventSynchronize");
  ++waits;
  const Mark& mark = *marks_.at(mark_of(event));
  launches_behind_waits.push_back(launches - mark.launches);
  const std::shared_ptr<Point> point = mark.point;
  require(point != nullptr && point->capture == nullptr, "an event was recorded on a stream");
  run_until([&] { return point->has_happened; }, "waits for an event");
  if (is_lost_) throw UserError(ExitCode::environment, "cudaEventSynchronize: the GPU was lost");
}

double FakeDevice::elapsed_s(Event begin, Event end) {
  const Lock lock(mutex_);
  const auto time_of = [&](Event event) {
    const Mark& mark = *marks_.at(mark_of(event));
    require(mark.timing == Timing::on && mark.point != nullptr && mark.point->has_happened,
            "an event with timing has happened");
    return mark.point->time_s;
  };
  return time_of(end) - time_of(begin);
}

bool FakeDevice::may_run(const Node& node) {
  return std::ranges::all_of(node.behind, [](const auto& point) { return point->has_happened; }) &&
         (!node.can_run || node.can_run());
}

/// The first of a random stream that may run; false: none.
bool FakeDevice::run_one() {
  std::vector<Queue*> ready;
  for (const auto& [queue, owned] : queues_)
    if (!queue->nodes.empty() && may_run(queue->nodes.front())) ready.push_back(queue);
  if (ready.empty()) return false;
  Queue& queue = *ready[random_() % ready.size()];
  const Node node = std::move(queue.nodes.front());
  queue.nodes.pop_front();
  do_work(node.work);
  node.point->has_happened = true;
  node.point->time_s = clock_s_;
  has_moved();
  return true;
}

void FakeDevice::has_moved() {
  if (together_ != nullptr) together_->has_moved();
}

/// There is nothing to do on this device until another one has moved.
void FakeDevice::stand(std::int64_t seen, const std::string& why) {
  if (together_ == nullptr) return;
  together_->stand(this, seen, why);
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void FakeDevice::run_until(const std::function<bool()>& is_done, const std::string& why) {
  while (!is_done()) {
    const std::int64_t seen = moves();
    if (run_one()) continue;
    if (together_ == nullptr) throw std::logic_error("streams of the device wait for one another");
    stand(seen, why);
  }
}

void FakeDevice::do_work(const Work& work) {
  if (!work) return;
  if (works_left_ && --*works_left_ < 0) is_lost_ = true;
  if (is_lost_) return;
  ++works;
  clock_s_ += work_s;
  set_access(true);
  work();
  set_access(false);
}

// --- graphs

void FakeDevice::begin_capture(Stream stream) {
  const Lock lock(mutex_);
  count("cudaStreamBeginCapture");
  require(capture_ == nullptr, "one capture is under way at a time");
  capture_ = std::make_unique<Captured>();
  capture_origin_ = queue_of(stream);
  capture_origin_->is_captured = true;
}

void FakeDevice::abandon_capture(Stream) noexcept {
  const Lock lock(mutex_);
  for (const auto& [queue, owned] : queues_) {
    queue->is_captured = false;
    queue->tail.clear();
  }
  capture_.reset();
}

FakeDevice::Graph FakeDevice::end_capture(Stream stream) {
  const Lock lock(mutex_);
  count("cudaStreamEndCapture");
  require(capture_ != nullptr && queue_of(stream) == capture_origin_,
          "a capture ends on the stream where it began");
  // Everything leads to the end of that stream.
  std::set<const Point*> joined;
  for (const auto& point : capture_origin_->tail) joined.insert(point.get());
  for (auto node = capture_->nodes.rbegin(); node != capture_->nodes.rend(); ++node) {
    require(joined.contains(node->point.get()), "every captured stream comes back");
    for (const auto& point : node->behind) joined.insert(point.get());
  }
  ++captures;
  std::unique_ptr<Captured> captured = std::move(capture_);
  Captured* const made = captured.get();
  graphs_[made] = std::move(captured);
  abandon_capture(stream);
  return reinterpret_cast<Graph>(made);
}

void FakeDevice::release(Graph graph) noexcept {
  const Lock lock(mutex_);
  graphs_.erase(captured_of(graph));
}

void FakeDevice::launch(Graph graph, Stream stream) {
  const Lock lock(mutex_);
  count("cudaGraphLaunch");
  ++launches;
  // A graph may be given up while it runs: CUDA frees it at its end.
  const auto captured = std::make_shared<const Captured>(*graphs_.at(captured_of(graph)));
  // The graph's nodes count as the work.
  Queue& queue = *queues_.at(queue_of(stream));
  require(!queue.is_captured, "a graph is launched outside of captures");
  auto point = std::make_shared<Point>();
  for (const auto& node : captured->nodes) node.point->has_happened = false;
  has_moved();
  queue.nodes.push_back(
      {.work = [this, captured] { run_graph(*captured); }, .point = std::move(point)});
}

/// In a random one of the orders that the graph allows.
void FakeDevice::run_graph(const Captured& graph) {
  std::vector<const Node*> left;
  for (const Node& node : graph.nodes) {
    node.point->has_happened = false;
    left.push_back(&node);
  }
  while (!left.empty()) {
    const std::int64_t seen = moves();
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < left.size(); ++i)
      if (may_run(*left[i])) ready.push_back(i);
    if (ready.empty() && together_ != nullptr) {
      stand(seen, "is within a graph");
      continue;
    }
    const std::size_t chosen = ready.at(random_() % ready.size());
    do_work(left[chosen]->work);
    left[chosen]->point->has_happened = true;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
    has_moved();
  }
}

void FakeDevice::push_range(const char* name) {
  const Lock lock(mutex_);
  ranges.emplace_back(name);
  ++open_ranges;
}

void FakeDevice::pop_range() {
  const Lock lock(mutex_);
  --open_ranges;
}

}  // namespace fourfold::test
