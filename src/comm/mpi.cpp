#include "comm/mpi.h"

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/format.h"
#include "comm/reduce.h"
#include "comm/termination.h"

namespace fourfold::comm {
namespace {

constexpr std::size_t num_types = 7, num_reductions = 2;

/// Throws where an MPI call failed; most MPI libraries end the process before that.
void check_mpi(int result, std::string_view call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw UserError(
      ExitCode::environment,
      format("{} failed: {}", call, std::string_view(text, static_cast<std::size_t>(length))));
}

/// MPI's reductions of bf16, and the maxima that keep a NaN, which MPI_MAX does not promise.
template <DType type, Reduction reduction>
void reduce_callback(void* with, void* into, int* count, MPI_Datatype*) {
  reduce_into(static_cast<const std::byte*>(with), static_cast<std::byte*>(into),
              static_cast<std::size_t>(*count), type, reduction);
}

MPI_Op own_op(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  check_mpi(MPI_Op_create(function, 1, &op), "MPI_Op_create");
  return op;
}

/// What moves in one call of a collective that only copies: the widest unit that fits, so that the
/// limit on counts is met as late as can be.
struct Unit {
  MPI_Datatype type;
  std::size_t bytes;
};
Unit unit_of(std::size_t bytes) {
  return bytes % 8 == 0 ? Unit{MPI_UINT64_T, 8} : Unit{MPI_BYTE, 1};
}

/// A run of units whose repetitions lie a part apart, for parts too large for one call.
class StridedType {
 public:
  StridedType(Unit unit, std::size_t count, std::size_t stride_bytes) {
    MPI_Datatype run = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(static_cast<int>(count), unit.type, &run), "MPI_Type_contiguous");
    check_mpi(MPI_Type_create_resized(run, 0, static_cast<MPI_Aint>(stride_bytes), &type_),
              "MPI_Type_create_resized");
    MPI_Type_free(&run);
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  StridedType(const StridedType&) = delete;
  StridedType& operator=(const StridedType&) = delete;
  ~StridedType() { MPI_Type_free(&type_); }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// A collective or a message that is under way.
class Request {
 public:
  explicit Request(std::string_view call) : call_(call) {}

  MPI_Request* get() { return &request_; }
  void began(int result) const { check_mpi(result, call_); }

  /// Waits for its end. A blocking call would look for messages all the time, on a core that
  /// computation could use: this thread sleeps between two looks, longer the longer it waits. What
  /// arrives meanwhile waits in the system's buffers. Cost: up to 0.1 ms after the last message.
  void finish() { check_mpi(end(MPI_STATUS_IGNORE), call_); }

  /// The same; returns what MPI says of the end.
  int end(MPI_Status* status) {
    constexpr int looks_awake = 16;
    constexpr long shortest_ns = 10'000, longest_ns = 100'000;
    long sleep_ns = shortest_ns;
    for (int looks = 1;; ++looks) {
      int is_done = 0;
      const int result = MPI_Test(&request_, &is_done, status);
      if (is_done != 0 || result != MPI_SUCCESS) return result;
      if (looks <= looks_awake) {
        sched_yield();
        continue;
      }
      sleep_exactly(sleep_ns);
      sleep_ns = std::min(sleep_ns + sleep_ns / 4, longest_ns);
    }
  }

 private:
  /// Linux lets sleepers wait 50 us longer than they asked for, to wake several at once.
  static void sleep_exactly(long ns) {
    static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1'000UL);
    static_cast<void>(slack);
    const timespec time{0, ns};
    nanosleep(&time, nullptr);
  }

  std::string_view call_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

/// What MPI handed out, and what it said about itself.
class MpiHandles {
 public:
  explicit MpiHandles(const MpiOptions& mpi_options) : options(mpi_options) {
    check_mpi(MPI_Type_contiguous(2, MPI_BYTE, &bf16), "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&bf16), "MPI_Type_commit");
    bf16_sum = own_op(reduce_callback<DType::bf16, Reduction::sum>);
    bf16_max = own_op(reduce_callback<DType::bf16, Reduction::max>);
    f32_max = own_op(reduce_callback<DType::f32, Reduction::max>);
    f64_max = own_op(reduce_callback<DType::f64, Reduction::max>);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &messages), "MPI_Comm_dup");
    MPI_Comm local = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local),
              "MPI_Comm_split_type");
    MPI_Comm_rank(local, &local_rank);
    MPI_Comm_size(local, &local_size);
    MPI_Comm_free(&local);
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) == 0) host = name.data();
  }

  /// Before MPI ends.
  void free() {
    MPI_Type_free(&bf16);
    for (MPI_Op* op : {&bf16_sum, &bf16_max, &f32_max, &f64_max}) MPI_Op_free(op);
    MPI_Comm_free(&messages);
  }

  MPI_Datatype type(DType dtype) const {
    const std::array<MPI_Datatype, num_types> types{
        MPI_FLOAT, MPI_DOUBLE, bf16, MPI_INT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_UINT8_T};
    return types[static_cast<std::size_t>(dtype)];
  }

  MPI_Op op(DType dtype, Reduction reduction) const {
    const bool sum = reduction == Reduction::sum;
    if (dtype == DType::bf16) return sum ? bf16_sum : bf16_max;
    if (sum) return MPI_SUM;
    return dtype == DType::f32 ? f32_max : dtype == DType::f64 ? f64_max : MPI_MAX;
  }

  const MpiOptions options;
  MPI_Datatype bf16 = MPI_DATATYPE_NULL;
  MPI_Op bf16_sum = MPI_OP_NULL, bf16_max = MPI_OP_NULL, f32_max = MPI_OP_NULL,
         f64_max = MPI_OP_NULL;
  MPI_Comm messages = MPI_COMM_NULL;  // for send and recv
  int local_rank = 0, local_size = 1;
  bool concurrent = true;
  std::string host;
};

namespace {

class MpiGroup : public Group {
 public:
  MpiGroup(GroupSpec group_spec, std::size_t position, const MpiHandles& handles)
      : Group(std::move(group_spec), position),
        handles_(handles),
        max_count_(static_cast<std::size_t>(handles.options.max_count)) {
    std::vector<int> ranks;
    for (const Rank member : members()) ranks.push_back(static_cast<int>(member.index()));
    MPI_Group world = MPI_GROUP_NULL, mine = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    check_mpi(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &mine),
              "MPI_Group_incl");
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, mine, 0, &comm_), "MPI_Comm_create_group");
    MPI_Group_free(&mine);
    MPI_Group_free(&world);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    scratch_.resize(static_cast<std::size_t>(spec().largest_bytes) / size());
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup() override {
    int over = 0;
    MPI_Finalized(&over);
    if (over == 0) MPI_Comm_free(&comm_);
  }

 private:
  void exchange(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                DType type, Reduction reduction) override {
    const CollectiveFacts& facts = facts_of(kind);
    if (facts.is_in_place())
      reduce_in_place(to, type, reduction);
    else if (facts.reduces())
      reduce_and_scatter(from, to, type, reduction);
    else if (facts.scatters())
      exchange_parts(from, to);
    else
      gather(from, to);
  }

  void reduce_in_place(std::span<std::byte> data, DType type, Reduction reduction) {
    const auto width = static_cast<std::size_t>(size_bytes(type));
    for_pieces(data.size() / width, [&](std::size_t first, int count) {
      Request request("MPI_Iallreduce");
      request.began(MPI_Iallreduce(MPI_IN_PLACE, data.data() + first * width, count,
                                   handles_.type(type), handles_.op(type, reduction), comm_,
                                   request.get()));
      request.finish();
    });
  }

  void reduce_and_scatter(std::span<const std::byte> from, std::span<std::byte> to, DType type,
                          Reduction reduction) {
    // MPI forbids to write into what is read; its own in-place form puts the result elsewhere and
    // leaves the other parts undefined.
    const bool in_place = from.data() + position() * to.size() == to.data();
    if (in_place && scratch_.size() < to.size()) scratch_.resize(to.size());
    std::byte* const result = in_place ? scratch_.data() : to.data();
    const auto width = static_cast<std::size_t>(size_bytes(type));
    const std::size_t count = to.size() / width;
    if (count <= max_count_) {
      Request request("MPI_Ireduce_scatter_block");
      request.began(MPI_Ireduce_scatter_block(from.data(), result, static_cast<int>(count),
                                              handles_.type(type), handles_.op(type, reduction),
                                              comm_, request.get()));
      request.finish();
    } else {
      for (std::size_t part = 0; part < size(); ++part)
        for_pieces(count, [&](std::size_t first, int piece) {
          Request request("MPI_Ireduce");
          request.began(MPI_Ireduce(from.data() + (part * count + first) * width,
                                    result + first * width, piece, handles_.type(type),
                                    handles_.op(type, reduction), static_cast<int>(part), comm_,
                                    request.get()));
          request.finish();
        });
    }
    if (in_place && !to.empty()) std::memcpy(to.data(), result, to.size());
  }

  void gather(std::span<const std::byte> from, std::span<std::byte> to) {
    const bool in_place = to.data() + position() * from.size() == from.data();
    const Unit unit = unit_of(from.size());
    const std::size_t count = from.size() / unit.bytes;
    if (count <= max_count_) {
      const int n = static_cast<int>(count);
      Request request("MPI_Iallgather");
      request.began(MPI_Iallgather(in_place ? MPI_IN_PLACE : from.data(), n, unit.type, to.data(),
                                   n, unit.type, comm_, request.get()));
      request.finish();
      return;
    }
    for_pieces(count, [&](std::size_t first, int piece) {
      const StridedType run(unit, static_cast<std::size_t>(piece), from.size());
      const std::size_t at = first * unit.bytes;
      Request request("MPI_Iallgather");
      request.began(MPI_Iallgather(in_place ? MPI_IN_PLACE : from.data() + at, piece, unit.type,
                                   to.data() + at, 1, run.get(), comm_, request.get()));
      request.finish();
    });
  }

  void exchange_parts(std::span<const std::byte> from, std::span<std::byte> to) {
    const std::size_t part = from.size() / size();
    const Unit unit = unit_of(part);
    const std::size_t count = part / unit.bytes;
    if (count <= max_count_) {
      const int n = static_cast<int>(count);
      Request request("MPI_Ialltoall");
      request.began(
          MPI_Ialltoall(from.data(), n, unit.type, to.data(), n, unit.type, comm_, request.get()));
      request.finish();
      return;
    }
    for_pieces(count, [&](std::size_t first, int piece) {
      const StridedType run(unit, static_cast<std::size_t>(piece), part);
      const std::size_t at = first * unit.bytes;
      Request request("MPI_Ialltoall");
      request.began(MPI_Ialltoall(from.data() + at, 1, run.get(), to.data() + at, 1, run.get(),
                                  comm_, request.get()));
      request.finish();
    });
  }

  /// Calls `call(first, count)` for pieces of at most max_count_ elements; once for none at all,
  /// so that an empty all-reduce still meets the others.
  template <class Call>
  void for_pieces(std::size_t count, Call&& call) const {
    std::size_t first = 0;
    do {
      const std::size_t piece = std::min(count - first, max_count_);
      call(first, static_cast<int>(piece));
      first += piece;
    } while (first < count);
  }

  const MpiHandles& handles_;
  std::size_t max_count_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<std::byte> scratch_;  // one part, for reductions in place
};

int start_mpi(const MpiOptions& options) {
  // Ranks may be more than cores: whoever waits in Open MPI gives the core away. Read when MPI
  // starts; the user's own setting stays.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  const int wanted = options.one_thread ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, wanted, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED)
    throw UserError(ExitCode::environment,
                    "this MPI library cannot be called from worker threads (it provides less than "
                    "MPI_THREAD_SERIALIZED); use a build with thread support");
  return options.one_thread ? MPI_THREAD_SERIALIZED : provided;
}

}  // namespace

std::unique_ptr<MpiWorld> MpiWorld::start(const MpiOptions& options) {
  const int provided = start_mpi(options);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto handles = std::make_unique<MpiHandles>(options);
  handles->concurrent = provided == MPI_THREAD_MULTIPLE;
  return std::unique_ptr<MpiWorld>(new MpiWorld(
      Rank(static_cast<std::size_t>(rank)), static_cast<std::size_t>(size), std::move(handles)));
}

MpiWorld::MpiWorld(Rank rank, std::size_t size, std::unique_ptr<MpiHandles> handles)
    : World(rank, size), handles_(std::move(handles)) {
  make_everyone();
}

MpiWorld::~MpiWorld() = default;

void MpiWorld::finish() {
  barrier();
  clear_groups();
  handles_->free();
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

std::size_t MpiWorld::local_rank() const {
  return static_cast<std::size_t>(handles_->local_rank);
}
std::size_t MpiWorld::local_size() const {
  return static_cast<std::size_t>(handles_->local_size);
}
bool MpiWorld::concurrent() const {
  return handles_->concurrent;
}
const std::string& MpiWorld::host() const {
  return handles_->host;
}

std::string MpiWorld::library() const {
  return mpi_library();
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

bool mpi_takes_device_memory() {
  int has_started = 0, has_ended = 0;
  MPI_Initialized(&has_started);
  MPI_Finalized(&has_ended);
  if (has_started == 0 || has_ended != 0) return false;
  // By its name in what is loaded: headers that declare it are not everywhere where it is.
  const auto query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query != nullptr && query() == 1;
}

void MpiWorld::set_end(End end) {
  end_ = std::move(end);
}

void MpiWorld::abort_all(ExitCode code, std::string_view message) {
  if (end_) end_(code, message);
  std::fflush(nullptr);
  say_on_stderr(format("error: {}", message));
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

std::unique_ptr<Group> MpiWorld::make_group(const GroupSpec& spec, std::size_t position) {
  return std::make_unique<MpiGroup>(spec, position, *handles_);
}

void MpiWorld::do_send(Rank peer, int tag, std::span<const std::byte> bytes) {
  const auto most = static_cast<std::size_t>(handles_->options.max_count);
  std::size_t first = 0;
  do {
    const std::size_t piece = std::min(bytes.size() - first, most);
    Request sent("MPI_Isend");
    sent.began(MPI_Isend(bytes.data() + first, static_cast<int>(piece), MPI_BYTE,
                         static_cast<int>(peer.index()), tag, handles_->messages, sent.get()));
    sent.finish();
    first += piece;
  } while (first < bytes.size());
}

void MpiWorld::do_recv(Rank peer, int tag, std::span<std::byte> bytes) {
  const auto most = static_cast<std::size_t>(handles_->options.max_count);
  std::size_t first = 0;
  do {
    const std::size_t piece = std::min(bytes.size() - first, most);
    MPI_Status status;
    int count = 0;
    Request received("MPI_Irecv");
    received.began(MPI_Irecv(bytes.data() + first, static_cast<int>(piece), MPI_BYTE,
                             static_cast<int>(peer.index()), tag, handles_->messages,
                             received.get()));
    const int result = received.end(&status);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(result, &error_class);
    if (error_class != MPI_ERR_TRUNCATE) check_mpi(result, "MPI_Irecv");
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (error_class == MPI_ERR_TRUNCATE || static_cast<std::size_t>(count) != piece)
      throw UserError(
          ExitCode::ranks_disagree,
          format("rank {} sends another number of bytes with tag {} than the {} that rank {} "
                 "expects; their programs do not fit together",
                 peer.index(), tag, piece, rank().index()));
    first += piece;
  } while (first < bytes.size());
}

}  // namespace fourfold::comm
