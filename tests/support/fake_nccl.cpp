#include "support/fake_nccl.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "comm/reduce.h"
#include "comm/world.h"
#include "support/fake_stream.h"

namespace fourfold::test {
namespace {

using comm::NcclComm;
using comm::NcclConfig;
using comm::NcclReduction;
using comm::NcclResult;
using comm::NcclType;
using comm::NcclUniqueId;

std::size_t width_of(NcclType type) {
  switch (type) {
    case NcclType::u8:
      return 1;
    case NcclType::bf16:
      return 2;
    case NcclType::i32:
    case NcclType::f32:
      return 4;
    default:
      return 8;
  }
}

DType dtype_of_nccl(NcclType type) {
  switch (type) {
    case NcclType::u8:
      return DType::u8;
    case NcclType::i32:
      return DType::i32;
    case NcclType::i64:
      return DType::i64;
    case NcclType::u64:
      return DType::u64;
    case NcclType::f32:
      return DType::f32;
    case NcclType::f64:
      return DType::f64;
    case NcclType::bf16:
      return DType::bf16;
  }
  fail_internal("a call has one of NCCL's types");
}

/// A communicator of several ranks, as all of them see it.
struct Clique {
  explicit Clique(std::size_t size)
      : members(size, nullptr), begun(size, 0), posts(size * size), splits(size, 0) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<struct FakeComm*> members;
  /// A collective that some members have begun.
  struct Round {
    struct Call {
      std::string text;
      std::vector<std::byte> from;
    };
    std::map<std::size_t, Call> calls;  // by member
    std::size_t done = 0;               // members that have their result
  };
  std::map<std::size_t, Round> rounds;
  std::vector<std::size_t> begun;  // collectives of each member
  struct Post {
    std::deque<std::vector<std::byte>> sent;
    std::size_t taken = 0, posted = 0;
  };
  std::vector<Post> posts;  // by sender and receiver
  bool is_aborted = false;

  // Under the library's mutex.
  struct Split {
    std::map<std::size_t, std::tuple<int, int, NcclComm*>> wishes;  // by member
  };
  std::vector<Split> under_way;
  std::vector<std::size_t> splits;  // calls of each member
};

struct FakeComm {
  std::shared_ptr<Clique> clique;
  std::size_t member = 0, root_rank = 0;
  bool is_ready = false, is_alive = true, is_split = true;
  NcclResult error = NcclResult::success;

  NcclComm handle() { return reinterpret_cast<NcclComm>(this); }
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Clique>> roots;  // by unique id
  std::vector<std::unique_ptr<FakeComm>> comms;
  std::map<std::size_t, std::vector<std::string>> calls;
  std::map<std::size_t, std::vector<NcclConfig>> configs;
  std::map<std::pair<std::size_t, std::string>, NcclResult> failures;
  std::set<std::pair<std::size_t, std::string>> blocked;
  std::map<std::size_t, NcclResult> broken;
  std::set<void*> allocations;
  std::set<std::pair<FakeComm*, void*>> registered;
  std::size_t ids = 0;
  std::string last_words = "the fake says why";
};
State* state = nullptr;

/// A call that was enqueued. In a group, all begin before any works, and all work before any
/// finishes. `can_work` and `can_finish` say whether these would not wait.
struct Piece {
  FakeComm* comm = nullptr;
  std::function<void()> begin = nullptr, work = nullptr, finish = nullptr;
  std::function<bool()> can_work = nullptr, can_finish = nullptr;
};
/// Those of a thread between ncclGroupStart and ncclGroupEnd.
struct GroupCalls {
  int depth = 0;
  std::vector<Piece> pieces;
  comm::DeviceStream stream = nullptr;
};
thread_local GroupCalls group_calls;
thread_local std::optional<std::size_t> rank_of_thread;

FakeComm* comm_of(NcclComm comm) {
  return reinterpret_cast<FakeComm*>(comm);
}

/// Writes a call down, under the mutex; gives what was ordered for it.
std::optional<NcclResult> note(const std::string& function, const std::string& text,
                               std::unique_lock<std::mutex>& lock) {
  if (!rank_of_thread) return std::nullopt;
  const std::size_t rank = *rank_of_thread;
  state->calls[rank].push_back(text);
  if (state->blocked.contains({rank, function})) {
    const auto is_aborted = [&] {
      return std::ranges::any_of(state->comms, [&](const auto& comm) {
        return comm->root_rank == rank && !comm->is_alive;
      });
    };
    state->changed.wait(lock, is_aborted);
    return NcclResult::internal_error;
  }
  const auto failure = state->failures.find({rank, function});
  return failure == state->failures.end() ? std::nullopt : std::optional(failure->second);
}

FakeComm* new_comm(std::size_t root_rank, const NcclConfig* config) {
  state->comms.push_back(std::make_unique<FakeComm>());
  FakeComm* comm = state->comms.back().get();
  comm->root_rank = root_rank;
  if (config != nullptr) state->configs[root_rank].push_back(*config);
  return comm;
}

/// All members are there.
void complete(const std::shared_ptr<Clique>& clique) {
  for (std::size_t i = 0; i < clique->members.size(); ++i) {
    FakeComm& comm = *clique->members[i];
    comm.clique = clique;
    comm.member = i;
    comm.is_ready = true;
  }
}

void complete_split(Clique& parent, Clique::Split& split) {
  std::map<int, std::map<std::pair<int, std::size_t>, NcclComm*>> by_color;
  for (const auto& [member, wish] : split.wishes) {
    const auto& [color, key, made] = wish;
    parent.members[member]->is_split = true;
    if (color >= 0) by_color[color][{key, member}] = made;
  }
  for (const auto& [color, wishes] : by_color) {
    const auto clique = std::make_shared<Clique>(wishes.size());
    std::size_t i = 0;
    for (const auto& [place, made] : wishes) {
      FakeComm* comm = new_comm(parent.members[place.second]->root_rank, nullptr);
      clique->members[i++] = comm;
      *made = comm->handle();
    }
    complete(clique);
  }
}

NcclResult usable(FakeComm* comm) {
  const bool is_known = std::ranges::any_of(
      state->comms, [&](const auto& one) { return one.get() == comm && one->is_alive; });
  if (!is_known) return NcclResult::invalid_argument;
  return comm->is_ready && comm->is_split ? NcclResult::success : NcclResult::in_progress;
}

// --- making and ending

NcclResult get_version(int* version) {
  *version = 22809;
  return NcclResult::success;
}

NcclResult get_unique_id(NcclUniqueId* id) {
  std::unique_lock lock(state->mutex);
  rank_of_thread = 0;  // only rank 0 makes one
  if (const auto ordered = note("ncclGetUniqueId", "get_unique_id", lock)) return *ordered;
  // Bytes of all kinds: zeros, line breaks, the highest one.
  for (std::size_t i = 0; i < id->bytes.size(); ++i)
    id->bytes[i] = static_cast<char>(i * 7 + state->ids);
  ++state->ids;
  state->roots[std::string(id->bytes.begin(), id->bytes.end())] = nullptr;
  return NcclResult::success;
}

NcclResult comm_init_rank_config(NcclComm* made, int ranks, NcclUniqueId id, int rank,
                                 NcclConfig* config) {
  std::unique_lock lock(state->mutex);
  rank_of_thread = static_cast<std::size_t>(rank);
  if (const auto ordered =
          note("ncclCommInitRankConfig", format("init {} of {}", rank, ranks), lock))
    return *ordered;
  const auto root = state->roots.find(std::string(id.bytes.begin(), id.bytes.end()));
  if (root == state->roots.end() || config->magic != 0xcafebeef)
    return NcclResult::invalid_argument;
  std::shared_ptr<Clique>& clique = root->second;
  if (clique == nullptr) clique = std::make_shared<Clique>(static_cast<std::size_t>(ranks));
  FakeComm* comm = new_comm(*rank_of_thread, config);
  clique->members[*rank_of_thread] = comm;
  *made = comm->handle();
  if (std::ranges::count(clique->members, nullptr) == 0) complete(clique);
  return NcclResult::in_progress;
}

NcclResult comm_split(NcclComm parent, int color, int key, NcclComm* made, NcclConfig* config) {
  std::unique_lock lock(state->mutex);
  const std::string text =
      color == comm::nccl_no_color ? "split none" : format("split {} {}", color, key);
  if (const auto ordered = note("ncclCommSplit", text, lock)) return *ordered;
  FakeComm* comm = comm_of(parent);
  if (const NcclResult result = usable(comm); result != NcclResult::success) return result;
  Clique& clique = *comm->clique;
  const std::size_t number = clique.splits[comm->member]++;
  if (clique.under_way.size() <= number) clique.under_way.resize(number + 1);
  comm->is_split = false;
  if (color != comm::nccl_no_color) state->configs[comm->root_rank].push_back(*config);
  *made = nullptr;
  Clique::Split& split = clique.under_way[number];
  split.wishes[comm->member] = {color, key, made};
  if (split.wishes.size() == clique.members.size()) complete_split(clique, split);
  return NcclResult::success;  // as NCCL 2.28.9 does, though it has only begun
}

NcclResult comm_get_async_error(NcclComm handle, NcclResult* error) {
  const std::lock_guard lock(state->mutex);
  FakeComm* comm = comm_of(handle);
  *error = usable(comm);
  if (*error == NcclResult::invalid_argument) return *error;
  if (const auto broken = state->broken.find(comm->root_rank); broken != state->broken.end())
    *error = broken->second;
  else if (comm->error != NcclResult::success)
    *error = comm->error;
  return NcclResult::success;
}

NcclResult finish_comm(NcclComm handle, bool is_abort, std::string_view text) {
  std::shared_ptr<Clique> clique;
  {
    const std::lock_guard lock(state->mutex);
    FakeComm* comm = comm_of(handle);
    if (usable(comm) == NcclResult::invalid_argument) return NcclResult::invalid_argument;
    state->calls[comm->root_rank].emplace_back(text);
    comm->is_alive = false;
    clique = comm->clique;
    state->changed.notify_all();
  }
  if (is_abort && clique != nullptr) {
    const std::lock_guard lock(clique->mutex);
    clique->is_aborted = true;
    clique->changed.notify_all();
  }
  return NcclResult::success;
}
NcclResult comm_finalize(NcclComm comm) {
  const std::lock_guard lock(state->mutex);
  if (usable(comm_of(comm)) == NcclResult::invalid_argument) return NcclResult::invalid_argument;
  state->calls[comm_of(comm)->root_rank].emplace_back("finalize");
  return NcclResult::in_progress;
}
NcclResult comm_destroy(NcclComm comm) {
  return finish_comm(comm, false, "destroy");
}
NcclResult comm_abort(NcclComm comm) {
  return finish_comm(comm, true, "abort");
}

const char* get_error_string(NcclResult result) {
  return result == NcclResult::remote_error ? "remote process exited or there was a network error"
                                            : "unhandled system error";
}
const char* get_last_error(NcclComm) {
  return state->last_words.c_str();
}

// --- what is enqueued

/// What the calls of a group do one after another. After a fault there is nothing left to do.
std::vector<StreamStep> steps_of(std::vector<Piece> list) {
  const auto pieces = std::make_shared<const std::vector<Piece>>(std::move(list));
  const auto has_failed = std::make_shared<bool>(false);
  const auto step = [&](auto what, auto can) {
    StreamStep made;
    made.run = [=] {
      if (*has_failed) return;
      try {
        for (const Piece& piece : *pieces)
          if (piece.*what) (piece.*what)();
      } catch (const comm::Aborted&) {
        *has_failed = true;  // as a kernel ends
      } catch (const UserError&) {
        *has_failed = true;
        const std::lock_guard lock(state->mutex);
        for (const Piece& piece : *pieces) piece.comm->error = NcclResult::internal_error;
      }
    };
    made.can_run = [=] {
      return *has_failed || std::ranges::all_of(*pieces, [&](const Piece& piece) {
        return !(piece.*can) || (piece.*can)();
      });
    };
    return made;
  };
  std::vector<StreamStep> steps = {step(&Piece::begin, &Piece::can_work),
                                   step(&Piece::work, &Piece::can_work),
                                   step(&Piece::finish, &Piece::can_finish)};
  // What is part of a graph begins again and again.
  steps[0] = {.can_run = nullptr, .run = [has_failed, begin = steps[0].run] {
                *has_failed = false;
                begin();
              }};
  return steps;
}

void run_on(comm::DeviceStream stream, std::vector<Piece> pieces) {
  std::vector<StreamStep> steps = steps_of(std::move(pieces));
  if (stream != nullptr) return push(stream, std::move(steps));
  for (const StreamStep& step : steps) step.run();
}

NcclResult enqueue(Piece piece, comm::DeviceStream stream) {
  if (group_calls.depth > 0) {
    group_calls.pieces.push_back(std::move(piece));
    group_calls.stream = stream;
    return NcclResult::success;
  }
  FakeComm* comm = piece.comm;
  run_on(stream, {std::move(piece)});
  const std::lock_guard lock(state->mutex);
  return stream == nullptr ? comm->error : NcclResult::success;
}

/// Looks whether a call can be made; the communicator of it where it can.
NcclResult begin_call(const std::string& function, const std::string& text, NcclComm handle) {
  std::unique_lock lock(state->mutex);
  FakeComm* comm = comm_of(handle);
  if (usable(comm) == NcclResult::invalid_argument) return NcclResult::invalid_argument;
  const std::string on = format("{} on {} ranks", text, comm->clique->members.size());
  return note(function, on, lock).value_or(NcclResult::success);
}

std::string text_of(std::size_t count, NcclType type) {
  return format("{} {}", count, to_string(dtype_of_nccl(type)));
}
Reduction reduction_of(NcclReduction reduction) {
  return reduction == NcclReduction::sum ? Reduction::sum : Reduction::max;
}
std::string_view text_of(NcclReduction reduction) {
  return reduction == NcclReduction::sum ? "sum" : "max";
}
std::span<const std::byte> bytes_of(const void* data, std::size_t count, NcclType type) {
  return {static_cast<const std::byte*>(data), count * width_of(type)};
}
std::span<std::byte> bytes_of(void* data, std::size_t count, NcclType type) {
  return {static_cast<std::byte*>(data), count * width_of(type)};
}

void wait_in(Clique& clique, std::unique_lock<std::mutex>& lock,
             const std::function<bool()>& until) {
  clique.changed.wait(lock, [&] { return clique.is_aborted || until(); });
  if (clique.is_aborted) throw comm::Aborted();
}

bool is_there(Clique& clique, const std::function<bool()>& what) {
  const std::lock_guard lock(clique.mutex);
  return clique.is_aborted || what();
}

/// The result of one member from what all of them gave.
using Combine = std::function<void(const std::vector<const std::byte*>& from)>;

Piece collective(NcclComm handle, const std::string& text, std::span<const std::byte> from,
                 const Combine& combine) {
  FakeComm* const comm = comm_of(handle);
  Clique& clique = *comm->clique;
  const auto number = std::make_shared<std::size_t>();
  const auto all_came = [=, &clique] {
    return clique.rounds[*number].calls.size() == clique.members.size();
  };
  return {.comm = comm,
          .begin =
              [=, &clique] {
                const std::lock_guard lock(clique.mutex);
                *number = clique.begun[comm->member]++;
                clique.rounds[*number].calls[comm->member] = {text, {from.begin(), from.end()}};
                clique.changed.notify_all();
              },
          .work =
              [=, &clique] {
                std::unique_lock lock(clique.mutex);
                wait_in(clique, lock, all_came);
                Clique::Round& round = clique.rounds[*number];
                std::vector<const std::byte*> all;
                bool fits = true;
                for (const auto& [member, call] : round.calls) {
                  all.push_back(call.from.data());
                  if (call.text != text) fits = false;
                }
                if (fits) combine(all);
                if (++round.done == all.size()) clique.rounds.erase(*number);
                if (!fits)
                  throw UserError(ExitCode::ranks_disagree, "members call other collectives");
              },
          .can_work = [=, &clique] { return is_there(clique, all_came); }};
}

NcclResult all_reduce(const void* from, void* to, std::size_t count, NcclType type,
                      NcclReduction reduction, NcclComm comm, CUstream_st* stream) {
  const std::string text = format("all_reduce {} {}", text_of(count, type), text_of(reduction));
  if (const NcclResult result = begin_call("ncclAllReduce", text, comm);
      result != NcclResult::success)
    return result;
  const auto into = bytes_of(to, count, type);
  return enqueue(collective(comm, text, bytes_of(from, count, type),
                            [=](const std::vector<const std::byte*>& all) {
                              std::byte* const result = into.data();
                              comm::reduce(all, {&result, 1}, 0, into.size(), dtype_of_nccl(type),
                                           reduction_of(reduction));
                            }),
                 stream);
}

NcclResult reduce_scatter(const void* from, void* to, std::size_t count, NcclType type,
                          NcclReduction reduction, NcclComm comm, CUstream_st* stream) {
  const std::string text = format("reduce_scatter {} {}", text_of(count, type), text_of(reduction));
  if (const NcclResult result = begin_call("ncclReduceScatter", text, comm);
      result != NcclResult::success)
    return result;
  const auto into = bytes_of(to, count, type);
  const std::size_t member = comm_of(comm)->member, members = comm_of(comm)->clique->members.size();
  return enqueue(collective(comm, text, bytes_of(from, count * members, type),
                            [=](const std::vector<const std::byte*>& all) {
                              std::vector<const std::byte*> parts;
                              for (const std::byte* one : all)
                                parts.push_back(one + member * into.size());
                              std::byte* const result = into.data();
                              comm::reduce(parts, {&result, 1}, 0, into.size(), dtype_of_nccl(type),
                                           reduction_of(reduction));
                            }),
                 stream);
}

NcclResult all_gather(const void* from, void* to, std::size_t count, NcclType type, NcclComm comm,
                      CUstream_st* stream) {
  const std::string text = format("all_gather {}", text_of(count, type));
  if (const NcclResult result = begin_call("ncclAllGather", text, comm);
      result != NcclResult::success)
    return result;
  const auto own = bytes_of(from, count, type);
  const auto into = static_cast<std::byte*>(to);
  return enqueue(collective(comm, text, own,
                            [=](const std::vector<const std::byte*>& all) {
                              for (std::size_t i = 0; i < all.size() && !own.empty(); ++i)
                                std::memcpy(into + i * own.size(), all[i], own.size());
                            }),
                 stream);
}

NcclResult send(const void* from, std::size_t count, NcclType type, int peer, NcclComm comm,
                CUstream_st* stream) {
  const std::string text = format("send {} to {}", text_of(count, type), peer);
  if (const NcclResult result = begin_call("ncclSend", text, comm); result != NcclResult::success)
    return result;
  Clique& clique = *comm_of(comm)->clique;
  const std::size_t me = comm_of(comm)->member;
  Clique::Post& post = clique.posts[me * clique.members.size() + static_cast<std::size_t>(peer)];
  const auto number = std::make_shared<std::size_t>();
  return enqueue(
      {.comm = comm_of(comm),
       .begin =
           [=, &clique, &post] {
             const auto bytes = bytes_of(from, count, type);
             const std::lock_guard lock(clique.mutex);
             post.sent.emplace_back(bytes.begin(), bytes.end());
             *number = ++post.posted;
             clique.changed.notify_all();
           },
       .finish =
           [=, &clique, &post] {
             std::unique_lock lock(clique.mutex);
             wait_in(clique, lock, [&] { return post.taken >= *number; });
           },
       .can_finish = [=, &clique,
                      &post] { return is_there(clique, [&] { return post.taken >= *number; }); }},
      stream);
}

NcclResult recv(void* to, std::size_t count, NcclType type, int peer, NcclComm comm,
                CUstream_st* stream) {
  const std::string text = format("recv {} from {}", text_of(count, type), peer);
  if (const NcclResult result = begin_call("ncclRecv", text, comm); result != NcclResult::success)
    return result;
  Clique& clique = *comm_of(comm)->clique;
  const std::size_t me = comm_of(comm)->member;
  Clique::Post& post = clique.posts[static_cast<std::size_t>(peer) * clique.members.size() + me];
  return enqueue(
      {.comm = comm_of(comm),
       .work =
           [=, &clique, &post] {
             std::unique_lock lock(clique.mutex);
             wait_in(clique, lock, [&] { return !post.sent.empty(); });
             const std::vector<std::byte> bytes = std::move(post.sent.front());
             post.sent.pop_front();
             ++post.taken;
             clique.changed.notify_all();
             if (bytes.size() != count * width_of(type))
               throw UserError(ExitCode::ranks_disagree, "a message of another size");
             if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
           },
       .can_work = [&clique,
                    &post] { return is_there(clique, [&] { return !post.sent.empty(); }); }},
      stream);
}

NcclResult group_start() {
  std::unique_lock lock(state->mutex);
  const auto ordered = note("ncclGroupStart", "group_start", lock);
  ++group_calls.depth;
  return ordered.value_or(NcclResult::success);
}

NcclResult group_end() {
  std::optional<NcclResult> ordered;
  {
    std::unique_lock lock(state->mutex);
    ordered = note("ncclGroupEnd", "group_end", lock);
  }
  if (group_calls.depth == 0) return NcclResult::invalid_usage;
  if (--group_calls.depth > 0) return NcclResult::success;
  std::vector<Piece> pieces = std::move(group_calls.pieces);
  group_calls.pieces.clear();
  if (ordered) return *ordered;
  if (!pieces.empty()) run_on(group_calls.stream, std::move(pieces));
  return NcclResult::success;
}

NcclResult mem_alloc(void** memory, std::size_t bytes) {
  std::unique_lock lock(state->mutex);
  if (const auto ordered = note("ncclMemAlloc", "mem_alloc", lock)) return *ordered;
  *memory = ::operator new(bytes);
  std::memset(*memory, 0, bytes);
  state->allocations.insert(*memory);
  return NcclResult::success;
}
NcclResult mem_free(void* memory) {
  const std::lock_guard lock(state->mutex);
  // Memory is given back when no communicator works in it.
  for (const auto& [comm, registered] : state->registered)
    if (registered == memory && comm->is_alive) return NcclResult::invalid_usage;
  if (state->allocations.erase(memory) == 0) return NcclResult::invalid_argument;
  ::operator delete(memory);
  return NcclResult::success;
}

NcclResult comm_register(NcclComm handle, void* memory, std::size_t bytes, void** made) {
  std::unique_lock lock(state->mutex);
  FakeComm* comm = comm_of(handle);
  if (usable(comm) == NcclResult::invalid_argument) return NcclResult::invalid_argument;
  const std::size_t members = comm->clique->members.size();
  if (const auto ordered =
          note("ncclCommRegister", format("register {} on {} ranks", bytes, members), lock))
    return *ordered;
  if (!state->allocations.contains(memory)) return NcclResult::invalid_argument;
  state->registered.insert({comm, memory});
  *made = memory;
  return NcclResult::success;
}
NcclResult comm_deregister(NcclComm handle, void* made) {
  std::unique_lock lock(state->mutex);
  FakeComm* comm = comm_of(handle);
  // As in NCCL, where the handle lies in memory of the communicator.
  if (usable(comm) == NcclResult::invalid_argument) return NcclResult::invalid_argument;
  note("ncclCommDeregister", "deregister", lock);
  return state->registered.erase({comm, made}) == 1 ? NcclResult::success
                                                    : NcclResult::invalid_argument;
}

}  // namespace

FakeNccl::FakeNccl() {
  require(state == nullptr, "there is one NCCL at a time");
  state = new State;
}
FakeNccl::~FakeNccl() {
  delete state;
  state = nullptr;
}

comm::NcclApi FakeNccl::api() const {
  return {.get_version = get_version,
          .get_unique_id = get_unique_id,
          .comm_init_rank_config = comm_init_rank_config,
          .comm_split = comm_split,
          .comm_finalize = comm_finalize,
          .comm_destroy = comm_destroy,
          .comm_abort = comm_abort,
          .comm_get_async_error = comm_get_async_error,
          .get_error_string = get_error_string,
          .get_last_error = get_last_error,
          .group_start = group_start,
          .group_end = group_end,
          .all_reduce = all_reduce,
          .reduce_scatter = reduce_scatter,
          .all_gather = all_gather,
          .send = send,
          .recv = recv,
          .mem_alloc = mem_alloc,
          .mem_free = mem_free,
          .comm_register = comm_register,
          .comm_deregister = comm_deregister};
}
comm::NcclApi FakeNccl::api_without_registration() const {
  comm::NcclApi api = this->api();
  api.comm_register = nullptr;
  api.comm_deregister = nullptr;
  return api;
}

void FakeNccl::fail(std::size_t rank, const std::string& function, NcclResult result) {
  const std::lock_guard lock(state->mutex);
  state->failures[{rank, function}] = result;
}
void FakeNccl::say(const std::string& words) {
  const std::lock_guard lock(state->mutex);
  state->last_words = words;
}
void FakeNccl::block(std::size_t rank, const std::string& function) {
  const std::lock_guard lock(state->mutex);
  state->blocked.insert({rank, function});
}
void FakeNccl::break_down(std::size_t rank, NcclResult result) {
  const std::lock_guard lock(state->mutex);
  state->broken[rank] = result;
}
std::vector<std::string> FakeNccl::calls(std::size_t rank) const {
  const std::lock_guard lock(state->mutex);
  return state->calls[rank];
}
std::size_t FakeNccl::num_alive() const {
  const std::lock_guard lock(state->mutex);
  return static_cast<std::size_t>(
      std::ranges::count_if(state->comms, [](const auto& comm) { return comm->is_alive; }));
}
std::size_t FakeNccl::num_registered() const {
  const std::lock_guard lock(state->mutex);
  return static_cast<std::size_t>(std::ranges::count_if(
      state->registered, [](const auto& one) { return one.first->is_alive; }));
}
std::size_t FakeNccl::num_allocations() const {
  const std::lock_guard lock(state->mutex);
  return state->allocations.size();
}
std::vector<NcclConfig> FakeNccl::configs(std::size_t rank) const {
  const std::lock_guard lock(state->mutex);
  return state->configs[rank];
}

}  // namespace fourfold::test
