#include "comm/nccl_communicators.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "comm/clock.h"

namespace fourfold::comm {
namespace {

using namespace std::chrono_literals;

/// A send that waits for its peer holds as many multiprocessors, and several of them wait at a
/// time, beside collectives that need theirs.
constexpr int most_ctas_of_a_message = 8;

/// How long abort() waits for a call to end by itself before it takes its communicator away.
constexpr double patience_s = 1;

constexpr std::size_t first_bytes_size = 4096;

/// NCCL has no result of its own for it, and passes on what CUDA says ("Cuda failure 2 'out of
/// memory'").
bool is_out_of_memory(NcclResult result, std::string_view words) {
  return result == NcclResult::unhandled_cuda_error &&
         words.find("out of memory") != std::string_view::npos;
}

std::string_view advice_for(NcclResult result, std::string_view words) {
  if (is_out_of_memory(result, words))
    return "the GPU has not enough free memory; set memory.limit to less than it has, or end what "
           "else runs there";
  switch (result) {
    case NcclResult::unhandled_cuda_error:
      return "`fourfold doctor` says what it finds of GPU and driver";
    case NcclResult::remote_error:
      return "another rank or the network between is gone; start the job again";
    default:
      return "NCCL_DEBUG=INFO in the environment makes NCCL say more";
  }
}

/// The unique id as a text: broadcasts are of texts, and a text is easy to look at.
std::string hexadecimal(const NcclUniqueId& id) {
  std::string text;
  for (const char byte : id.bytes) text += format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

NcclUniqueId id_from(std::string_view text) {
  NcclUniqueId id;
  require(text.size() == 2 * id.bytes.size(), "rank 0 sends a whole unique id");
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (std::size_t i = 0; i < id.bytes.size(); ++i)
    id.bytes[i] = static_cast<char>(16 * digit(text[2 * i]) + digit(text[2 * i + 1]));
  return id;
}

/// NCCL would say so too, but on some ranks alone and without their versions.
void require_one_version(World& world, const NcclApi& api) {
  const std::vector<std::string> versions = world.all_gather(nccl_version(api));
  const auto other = std::ranges::find_if(
      versions, [&](const std::string& version) { return version != versions[0]; });
  if (other != versions.end())
    throw UserError(ExitCode::ranks_disagree,
                    format("rank 0 has loaded NCCL {} and rank {} NCCL {}; put the same one into "
                           "LD_LIBRARY_PATH on all hosts",
                           versions[0], other - versions.begin(), *other));
}

std::string all_ranks_text(std::size_t size) {
  return size == 1 ? "the only rank" : format("all {} ranks", size);
}

}  // namespace

/// Ends a call that blocks for too long, or longer than the job.
class NcclCommunicators::Watch {
 public:
  enum class Verdict : std::uint8_t { none, time_out, end_of_job };

  explicit Watch(NcclCommunicators& communicators)
      : communicators_(communicators), thread_([this] { loop(); }) {}
  ~Watch() { stop(); }

  Verdict stop() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    return verdict_;
  }

 private:
  void loop() {
    const double begin_s = now_s();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 10ms, [&] { return stops_; })) {
      if (communicators_.world_.has_ended())
        verdict_ = Verdict::end_of_job;
      else if (now_s() - begin_s > communicators_.options_.time_out_s)
        verdict_ = Verdict::time_out;
      if (verdict_ == Verdict::none) continue;
      lock.unlock();
      communicators_.abort();
      return;
    }
  }

  NcclCommunicators& communicators_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  Verdict verdict_ = Verdict::none;  // read once the thread has been joined
  std::thread thread_;
};

NcclCommunicators::NcclCommunicators(World& world, const NcclApi& api, const NcclOptions& options)
    : world_(world),
      api_(api),
      options_(options),
      exceptions_at_start_(std::uncaught_exceptions()) {
  require_one_version(world, api_);
  all_.what = all_ranks_text(world.size());
  NcclUniqueId id;
  Lock lock = enter();
  if (world.rank().index() == 0)
    settle(api_.get_unique_id(&id), nullptr, "ncclGetUniqueId", all_.what, lock);
  lock.unlock();
  id = id_from(world.broadcast(hexadecimal(id)));
  NcclConfig config;
  config.blocking = 0;
  lock.lock();
  const NcclResult result =
      api_.comm_init_rank_config(&all_.comm, static_cast<int>(world.size()), id,
                                 static_cast<int>(world.rank().index()), &config);
  try {
    settle(result, all_.comm, "ncclCommInitRankConfig", all_.what, lock);
  } catch (const std::exception&) {
    // There is no destructor for what has not been constructed.
    if (lock.owns_lock()) lock.unlock();
    abort();
    throw;
  }
}

NcclCommunicators::~NcclCommunicators() {
  const bool has_fault = std::uncaught_exceptions() > exceptions_at_start_ || world_.has_ended();
  if (has_fault)
    abort();
  else
    end_in_order();
  if (first_bytes_ != nullptr) api_.mem_free(first_bytes_);
  for (const Memory& memory : memory_) api_.mem_free(memory.data);
}

void NcclCommunicators::end_in_order() {
  const Lock lock(calls_);
  if (is_aborted_.exchange(true)) return;
  for (const Entry& part : parts_) {
    for (void* const handle : part.registered) api_.comm_deregister(part.comm, handle);
    if (part.comm != nullptr) api_.comm_destroy(part.comm);
  }
  NcclResult state = api_.comm_finalize(all_.comm);
  const double begin_s = now_s();
  while (state == NcclResult::in_progress && now_s() - begin_s < options_.time_out_s) {
    std::this_thread::sleep_for(1ms);
    if (api_.comm_get_async_error(all_.comm, &state) != NcclResult::success) break;
  }
  if (state == NcclResult::success)
    api_.comm_destroy(all_.comm);
  else
    api_.comm_abort(all_.comm);
}

void NcclCommunicators::abort() {
  // A second caller returns when the first one is through, too.
  const std::lock_guard only(aborts_);
  Lock lock(calls_, std::defer_lock);
  // Whoever is stuck in a call comes out of it by what follows, and not before. Looks again and
  // again, as gcc 12's thread sanitizer does not know a lock with a time-out.
  const double begin_s = now_s();
  while (!is_aborted_ && !lock.try_lock() && now_s() - begin_s < patience_s)
    std::this_thread::sleep_for(1ms);
  if (is_aborted_.exchange(true)) return;
  // In a group all kernels are told to end before any is waited for: they may wait for each other.
  api_.group_start();
  for (const Entry& part : parts_)
    if (part.comm != nullptr) api_.comm_abort(part.comm);
  api_.group_end();
  if (all_.comm != nullptr) api_.comm_abort(all_.comm);
}

NcclCommunicators::Lock NcclCommunicators::enter() {
  Lock lock(calls_);
  if (is_aborted_) throw Aborted();
  return lock;
}

void NcclCommunicators::settle(NcclResult result, NcclComm comm, std::string_view call,
                               std::string_view what, Lock& lock) {
  if (result == NcclResult::success) return;
  if (result != NcclResult::in_progress) fail(result, comm, call, what);
  wait(comm, call, what, lock);
}

void NcclCommunicators::wait(NcclComm comm, std::string_view call, std::string_view what,
                             Lock& lock) {
  const double begin_s = now_s();
  for (int looks = 1;; ++looks) {
    if (is_aborted_) throw Aborted();
    NcclResult state = NcclResult::success;
    const NcclResult asked = api_.comm_get_async_error(comm, &state);
    if (asked != NcclResult::success) state = asked;
    if (state == NcclResult::success) return;
    if (state != NcclResult::in_progress) fail(state, comm, call, what);
    lock.unlock();
    const bool is_late = now_s() - begin_s > options_.time_out_s;
    if (is_late || world_.has_ended()) {
      abort();
      if (world_.has_ended()) throw Aborted();
      time_out(what);
    }
    std::this_thread::sleep_for(std::min(looks, 20) * 100us);
    lock.lock();
  }
}

void NcclCommunicators::fail(NcclResult result, NcclComm comm, std::string_view call,
                             std::string_view what) {
  // What NCCL says of a job that has ended is not the reason of its end.
  if (is_aborted_ || world_.has_ended()) throw Aborted();
  const char* last = api_.get_last_error(comm);
  const std::string_view words = last != nullptr ? last : "";
  const ExitCode code = result == NcclResult::remote_error ? ExitCode::peer_lost
                        : is_out_of_memory(result, words)  ? ExitCode::out_of_memory
                                                           : ExitCode::environment;
  throw UserError(code, format("NCCL on rank {}: {} for {}: {}{}{}; {}", world_.rank().index(),
                               call, what, api_.get_error_string(result), words.empty() ? "" : ": ",
                               words, advice_for(result, words)));
}

void NcclCommunicators::time_out(std::string_view what) const {
  throw UserError(
      ExitCode::environment,
      format("NCCL on rank {}: {} did not all connect within {} s; check that every rank has a GPU "
             "of its own and that their hosts reach each other (NCCL_SOCKET_IFNAME names the "
             "network; NCCL_DEBUG=INFO makes NCCL say more)",
             world_.rank().index(), what, options_.time_out_s));
}

std::vector<NcclCommunicators::Made> NcclCommunicators::make(std::span<const Party> own, Use use) {
  std::set<Party>& already = use == Use::messages ? messages_made_ : groups_made_;
  std::vector<Party> parties = parties_of_all(world_, own);
  std::erase_if(parties, [&](const Party& party) { return already.contains(party); });
  std::vector<Made> made;
  for (const SplitRound& round : rounds_of(parties, world_.size()))
    split(parties, round, use, made);
  for (const Made& one : made) first_use(one, use);
  already.insert(parties.begin(), parties.end());
  return made;
}

void NcclCommunicators::split(std::span<const Party> parties, const SplitRound& round, Use use,
                              std::vector<Made>& made) {
  int color = nccl_no_color, key = 0;
  const Party* own = nullptr;
  for (std::size_t i = 0; i < round.size(); ++i) {
    const auto& members = parties[round[i]].members;
    const auto place = std::ranges::find(members, world_.rank());
    if (place == members.end()) continue;
    own = &parties[round[i]];
    color = static_cast<int>(i);
    key = static_cast<int>(place - members.begin());
  }
  NcclConfig config;
  config.blocking = 1;
  config.split_share = 0;
  if (use == Use::messages) config.max_ctas = most_ctas_of_a_message;
  const std::string what = own != nullptr ? to_string(*own) : to_string(parties[round[0]]);
  Lock lock = enter();
  Entry& entry = parts_.emplace_back(Entry{nullptr, what});
  const NcclResult begun = api_.comm_split(all_.comm, color, key, &entry.comm, &config);
  // NCCL says success of a split that has only begun, where the communicator does not block.
  settle(begun == NcclResult::success ? NcclResult::in_progress : begun, all_.comm, "ncclCommSplit",
         what, lock);
  if (own == nullptr) {
    parts_.pop_back();
    return;
  }
  require(entry.comm != nullptr, "a split that is over has made a communicator");
  for (const Memory& memory : memory_) register_with(entry, memory, lock);
  made.push_back({*own, entry.comm});
}

std::byte* NcclCommunicators::allocate(std::size_t bytes) {
  Lock lock = enter();
  Memory memory{nullptr, bytes};
  settle(api_.mem_alloc(&memory.data, bytes), all_.comm, "ncclMemAlloc",
         format("{} bytes of tensors", bytes), lock);
  memory_.push_back(memory);
  for (Entry& part : parts_) register_with(part, memory, lock);
  return static_cast<std::byte*>(memory.data);
}

void NcclCommunicators::register_with(Entry& entry, const Memory& memory, Lock& lock) {
  if (!api_.can_register()) return;
  void* handle = nullptr;
  settle(api_.comm_register(entry.comm, memory.data, memory.bytes, &handle), entry.comm,
         "ncclCommRegister", entry.what, lock);
  // Where there is nothing to be won NCCL may give no handle.
  if (handle != nullptr) entry.registered.push_back(handle);
}

void NcclCommunicators::first_use(const Made& made, Use use) {
  if (made.party.members.size() > 1)
    carry_out(made.comm, to_string(made.party), [&] { return carry_first_bytes(made, use); });
}

void NcclCommunicators::carry_out(NcclComm comm, std::string_view what,
                                  const std::function<Answer()>& calls) {
  Watch watch(*this);
  Answer answer{};
  {
    const Lock lock = enter();
    answer = calls();
  }
  switch (watch.stop()) {
    case Watch::Verdict::end_of_job:
      throw Aborted();
    case Watch::Verdict::time_out:
      time_out(what);
    case Watch::Verdict::none:
      break;
  }
  Lock lock = enter();
  settle(answer.result, comm, answer.call, what, lock);
}

NcclCommunicators::Answer NcclCommunicators::carry_first_bytes(const Made& made, Use use) {
  if (first_bytes_ == nullptr) {
    const NcclResult result = api_.mem_alloc(&first_bytes_, first_bytes_size);
    if (result != NcclResult::success) return {result, "ncclMemAlloc"};
  }
  const DeviceStream stream = options_.first_stream;
  if (use == Use::collectives)
    return {api_.all_reduce(first_bytes_, first_bytes_, 1, NcclType::i64, NcclReduction::max,
                            made.comm, stream),
            "ncclAllReduce"};
  if (made.party.members[0] == world_.rank())
    return {api_.send(first_bytes_, 1, NcclType::u8, 1, made.comm, stream), "ncclSend"};
  return {api_.recv(first_bytes_, 1, NcclType::u8, 0, made.comm, stream), "ncclRecv"};
}

void NcclCommunicators::check() {
  const Lock lock = enter();
  const auto look = [&](const Entry& entry) {
    if (entry.comm == nullptr) return;
    NcclResult state = NcclResult::success;
    const NcclResult asked = api_.comm_get_async_error(entry.comm, &state);
    if (asked != NcclResult::success) state = asked;
    if (state != NcclResult::success && state != NcclResult::in_progress)
      fail(state, entry.comm, "what was enqueued", entry.what);
  };
  look(all_);
  for (const Entry& part : parts_) look(part);
  if (world_.has_ended()) throw Aborted();
}

}  // namespace fourfold::comm
