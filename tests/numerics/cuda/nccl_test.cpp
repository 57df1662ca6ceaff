// NCCL itself on a GPU: one rank in this process, and two ranks that are processes and share the
// GPU, which NCCL allows where each takes the other's host for another one (NCCL_HOSTID) and both
// talk over loopback. Skipped where no GPU answers or no NCCL is, and with NCCL's own words where
// it refuses two ranks on one GPU all the same.
//
// The second process is this program again: nccl_test --rank 1 --socket 5 --case NAME.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "comm/nccl_world.h"
#include "comm/reduce.h"
#include "comm/threads.h"
#include "unit/comm/matrix.h"

namespace fourfold::comm {
namespace {

void check_cuda(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw std::runtime_error(format("{}: {}", call, cudaGetErrorString(status)));
}

/// Why nothing can be tried here; "" where it can.
std::string why_not() {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices);
      status != cudaSuccess || devices == 0)
    return format("no CUDA device: {}", cudaGetErrorString(status));
  try {
    load_nccl();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

double now_in_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// MiB of the device that are in use.
double used_mib() {
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<double>(total - free) / (1 << 20);
}

class Stream {
 public:
  Stream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  bool is_done() const { return cudaStreamQuery(stream_) != cudaErrorNotReady; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Waits as a backend does: it asks the world what is wrong meanwhile.
void finish(const Stream& stream, DeviceWorld& world) {
  constexpr double most_s = 20;
  const double begin_s = now_in_s();
  while (!stream.is_done()) {
    world.check();
    if (now_in_s() - begin_s > most_s) throw std::runtime_error("a stream does not end");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  check_cuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
}

/// Memory of the device, and a copy of bytes of the host in it.
class OnGpu {
 public:
  explicit OnGpu(std::span<const std::byte> host) : size_(host.size()) {
    check_cuda(cudaMalloc(&data_, size_ + 1), "cudaMalloc");
    check_cuda(cudaMemcpy(data_, host.data(), size_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~OnGpu() { cudaFree(data_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), size_}; }
  void copy_back(std::span<std::byte> host) const {
    check_cuda(cudaMemcpy(host.data(), data_, size_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

/// The group of a device as one of the host, which copies tensors there and back.
class HostGroup : public Group {
 public:
  HostGroup(const GroupSpec& group_spec, std::size_t position, DeviceWorld& world)
      : Group(group_spec, position),
        world_(world),
        group_(world.group(group_spec.members, group_spec.name)) {}

  /// A collective of one rank or several, of which Group itself would not ask the device.
  void enqueue(Collective kind, DType type, Reduction reduction, std::span<const std::byte> from,
               std::span<std::byte> to) {
    // What shares memory on the host does so on the device.
    const bool share = from.data() < to.data() + to.size() && to.data() < from.data() + from.size();
    if (share) {
      const std::span<const std::byte> whole = from.size() > to.size() ? from : to;
      const OnGpu memory(whole);
      const auto part = [&](std::span<const std::byte> bytes) {
        const auto offset = static_cast<std::size_t>(bytes.data() - whole.data());
        return memory.bytes().subspan(offset, bytes.size());
      };
      run({kind, type, reduction, {part(from)}, {part(to)}});
      memory.copy_back({const_cast<std::byte*>(whole.data()), whole.size()});
    } else {
      const OnGpu source(from), target(to);
      run({kind, type, reduction, {source.bytes()}, {target.bytes()}});
      source.copy_back({const_cast<std::byte*>(from.data()), from.size()});
      target.copy_back(to);
    }
  }

 private:
  void exchange(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                DType type, Reduction reduction) override {
    enqueue(kind, type, reduction, from, to);
  }

  void run(const DeviceCollective& collective) {
    group_.enqueue(collective, stream_.get());
    finish(stream_, world_);
  }

  DeviceWorld& world_;
  DeviceGroup& group_;
  Stream stream_;
};

GroupSpec all_of(std::size_t count) {
  GroupSpec spec{"all", {}, 0};
  for (std::size_t i = 0; i < count; ++i) spec.members.emplace_back(i);
  return spec;
}

std::vector<float> numbers(std::size_t count, std::size_t rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7919 + rank * 31) % 613) / 64;
  return values;
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// --- one rank

TEST(NcclOnDevice, every_collective_of_one_rank_equals_that_of_threads) {
  const std::string reason = why_not();
  if (!reason.empty()) GTEST_SKIP() << reason;
  ThreadJob job(1);
  job.run([&](World& world) {
    check_cuda(cudaSetDevice(0), "cudaSetDevice");
    NcclWorld device(world, load_nccl());
    const GroupSpec spec = all_of(1);
    device.create_groups({&spec, 1});
    world.create_groups({&spec, 1});
    Group& threads = world.group(spec.members, "all");
    HostGroup nccl(spec, 0, device);
    for (const DType type :
         {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u64})
      for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
        std::vector<float> one = numbers(1026, 0), other = one;
        nccl.enqueue(Collective::all_reduce, type, reduction, bytes_of(one), bytes_of(one));
        threads.all_reduce(bytes_of(other), type, reduction);
        EXPECT_EQ(one, other) << to_string(type);
        std::vector<float> to(1026), other_to(1026);
        nccl.enqueue(Collective::reduce_scatter, type, reduction, bytes_of(one), bytes_of(to));
        threads.reduce_scatter(bytes_of(other), bytes_of(other_to), type, reduction);
        EXPECT_EQ(to, other_to) << to_string(type);
      }
    std::vector<float> from = numbers(1000, 0), to(1000), other_to(1000);
    nccl.enqueue(Collective::all_gather, DType::f32, Reduction::sum, bytes_of(from), bytes_of(to));
    threads.all_gather(bytes_of(from), bytes_of(other_to));
    EXPECT_EQ(to, other_to);
    std::ranges::fill(to, 0.F);
    nccl.enqueue(Collective::all_to_all, DType::f32, Reduction::sum, bytes_of(from), bytes_of(to));
    threads.all_to_all(bytes_of(from), bytes_of(other_to));
    EXPECT_EQ(to, other_to);
  });
}

// --- two processes

/// Two processes with a socket between, which serves the host's side.
class SocketWorld : public World {
 public:
  SocketWorld(std::size_t rank, int socket) : World(Rank(rank), 2), socket_(socket) {
    make_everyone();
  }
  std::size_t local_rank() const override { return rank().index(); }
  std::size_t local_size() const override { return 2; }
  void abort_all(ExitCode code, std::string_view message) override {
    std::fprintf(stderr, "error: %.*s\n", static_cast<int>(message.size()), message.data());
    std::_Exit(static_cast<int>(code));
  }
  /// True once the other process is gone: what the monitor of a job finds out.
  bool has_ended() const override {
    char byte = 0;
    return ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

 private:
  class Exchange : public Group {
   public:
    Exchange(const GroupSpec& group_spec, std::size_t position, int socket)
        : Group(group_spec, position), socket_(socket) {}

   private:
    void exchange(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                  DType type, Reduction reduction) override {
      if (kind == Collective::all_gather) return gather(from, to);
      require(kind == Collective::all_reduce, "the host's side needs no other collective");
      std::vector<std::byte> both(2 * to.size());
      gather(from, both);
      const std::array<const std::byte*, 2> terms{both.data(), both.data() + to.size()};
      const std::array<std::byte*, 1> results{to.data()};
      reduce(terms, results, 0, to.size(), type, reduction);
    }
    void gather(std::span<const std::byte> from, std::span<std::byte> to) {
      // Few bytes, which a socket takes whether or not they are read.
      require(write(socket_, from.data(), from.size()) == static_cast<ssize_t>(from.size()),
              "the other process is there");
      std::memcpy(to.data() + position() * from.size(), from.data(), from.size());
      std::byte* const theirs = to.data() + (1 - position()) * from.size();
      for (std::size_t done = 0; done < from.size();) {
        const ssize_t got = read(socket_, theirs + done, from.size() - done);
        require(got > 0, "the other process is there");
        done += static_cast<std::size_t>(got);
      }
    }

    int socket_;
  };

  std::unique_ptr<Group> make_group(const GroupSpec& spec, std::size_t position) override {
    return std::make_unique<Exchange>(spec, position, socket_);
  }
  void do_send(Rank, int, std::span<const std::byte>) override { fail_internal("no messages"); }
  void do_recv(Rank, int, std::span<std::byte>) override { fail_internal("no messages"); }

  int socket_;
};

void expect(bool condition, const std::string& sentence) {
  if (!condition) throw std::runtime_error("expected that " + sentence);
}

/// Every collective, alone and in lists, and out of a graph.
void collectives(World& world, NcclWorld& device) {
  const GroupSpec spec = all_of(2);
  const double before_s = now_in_s(), before_mib = used_mib();
  device.create_groups({&spec, 1});
  if (world.rank() == Rank(0))
    std::printf("a group took %.2f s and %.0f MiB of both\n", now_in_s() - before_s,
                used_mib() - before_mib);
  HostGroup group(spec, world.rank().index(), device);
  for (const std::int64_t count : {1, 17, 4099}) {
    const std::string error =
        check_collectives(group, count, Rounding::each_term, NanInMaximum::may_go);
    if (!error.empty()) throw std::runtime_error(error);
  }
  const double latency_from_s = now_in_s();
  constexpr int repetitions = 50;
  std::vector<float> one(1);
  for (int i = 0; i < repetitions; ++i) group.all_reduce(bytes_of(one), DType::f32, Reduction::sum);
  if (world.rank() == Rank(0))
    std::printf("an all-reduce of 4 bytes takes %.2f ms, copies to and fro with it\n",
                (now_in_s() - latency_from_s) / repetitions * 1e3);
}

/// Two tensors in one collective, captured once and launched several times.
void graph(World& world, NcclWorld& device) {
  const GroupSpec spec = all_of(2);
  device.create_groups({&spec, 1});
  DeviceGroup& group = device.group(spec.members, "all");
  const std::size_t me = world.rank().index();
  std::vector<float> small = numbers(33, me), large = numbers(50000, me);
  OnGpu on_small(bytes_of(small)), on_large(bytes_of(large));
  const Stream stream;
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  group.enqueue({Collective::all_reduce,
                 DType::f32,
                 Reduction::sum,
                 {on_small.bytes(), on_large.bytes()},
                 {on_small.bytes(), on_large.bytes()}},
                stream.get());
  cudaGraph_t captured = nullptr;
  check_cuda(cudaStreamEndCapture(stream.get(), &captured), "cudaStreamEndCapture");
  cudaGraphExec_t program = nullptr;
  check_cuda(cudaGraphInstantiate(&program, captured, 0), "cudaGraphInstantiate");
  constexpr int launches = 3;
  for (int i = 0; i < launches; ++i)
    check_cuda(cudaGraphLaunch(program, stream.get()), "cudaGraphLaunch");
  finish(stream, device);
  cudaGraphExecDestroy(program);
  cudaGraphDestroy(captured);
  // The first launch adds both, each further one doubles.
  const auto expect_sums = [&](const OnGpu& memory, std::size_t count) {
    std::vector<float> got(count), first = numbers(count, 0), second = numbers(count, 1);
    memory.copy_back(bytes_of(got));
    for (std::size_t i = 0; i < count; ++i)
      expect(got[i] == (first[i] + second[i]) * (1 << (launches - 1)),
             format("element {} of {} is reduced in each launch, not {}", i, count, got[i]));
  };
  expect_sums(on_small, small.size());
  expect_sums(on_large, large.size());
}

/// Tensors in memory that NCCL has given and knows, at offsets that differ between the ranks: sums
/// and a message, at once and in a graph that is launched again.
void registered(World& world, NcclWorld& device) {
  const GroupSpec spec = all_of(2);
  device.create_groups({&spec, 1});
  const std::size_t me = world.rank().index();
  const Rank peer(1 - me);
  const std::vector<Channel> channels = {{peer, 1, true}, {peer, 1, false}};
  device.create_channels(channels);
  constexpr std::size_t count = 1 << 18, bytes = count * sizeof(float);
  const double before_s = now_in_s();
  std::byte* const memory = device.allocate(std::int64_t{4} * bytes);
  expect(memory != nullptr, "NCCL gives memory");
  if (me == 0) std::printf("4 MiB and their registration took %.3f s\n", now_in_s() - before_s);
  const std::span<std::byte> summed(memory + me * bytes, bytes), sent(memory + 2 * bytes, bytes),
      taken(memory + 3 * bytes, bytes);
  std::vector<float> own = numbers(count, me);
  for (const auto& part : {summed, sent})
    check_cuda(cudaMemcpy(part.data(), own.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  const Stream stream, out, in;
  const auto sum = [&] {
    device.group(spec.members, "all")
        .enqueue({Collective::all_reduce, DType::f32, Reduction::sum, {summed}, {summed}},
                 stream.get());
  };
  sum();
  device.send(peer, 1, sent, out.get());
  device.recv(peer, 1, taken, in.get());
  for (const Stream* one : {&stream, &out, &in}) finish(*one, device);
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  sum();
  cudaGraph_t captured = nullptr;
  check_cuda(cudaStreamEndCapture(stream.get(), &captured), "cudaStreamEndCapture");
  cudaGraphExec_t program = nullptr;
  check_cuda(cudaGraphInstantiate(&program, captured, 0), "cudaGraphInstantiate");
  constexpr int launches = 2;
  for (int i = 0; i < launches; ++i)
    check_cuda(cudaGraphLaunch(program, stream.get()), "cudaGraphLaunch");
  finish(stream, device);
  cudaGraphExecDestroy(program);
  cudaGraphDestroy(captured);
  std::vector<float> got(count);
  const std::vector<float> first = numbers(count, 0), second = numbers(count, 1);
  check_cuda(cudaMemcpy(got.data(), summed.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (std::size_t i = 0; i < count; ++i)
    expect(got[i] == (first[i] + second[i]) * (1 << launches),
           format("element {} is reduced at once and in each launch, not {}", i, got[i]));
  check_cuda(cudaMemcpy(got.data(), taken.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  expect(got == numbers(count, peer.index()), "the message is the peer's");
}

/// Both send first, and take two tags in another order than they were sent.
void messages(World& world, NcclWorld& device) {
  const std::size_t me = world.rank().index();
  const Rank peer(1 - me);
  const std::vector<Channel> channels = {
      {peer, 1, true}, {peer, 2, true}, {peer, 1, false}, {peer, 2, false}};
  const double before_s = now_in_s(), before_mib = used_mib();
  device.create_channels(channels);
  if (me == 0)
    std::printf("four channels took %.2f s and %.0f MiB of both\n", now_in_s() - before_s,
                used_mib() - before_mib);
  constexpr std::size_t count = 300000;
  std::vector<float> first = numbers(count, me), second = numbers(count, 10 + me);
  std::vector<float> nothing(count);
  const OnGpu out_first(bytes_of(first)), out_second(bytes_of(second));
  const OnGpu in_first(bytes_of(nothing)), in_second(bytes_of(nothing));
  const Stream out_1, out_2, in;
  device.send(peer, 1, out_first.bytes(), out_1.get());
  device.send(peer, 2, out_second.bytes(), out_2.get());
  device.recv(peer, 2, in_second.bytes(), in.get());
  device.recv(peer, 1, in_first.bytes(), in.get());
  for (const Stream* stream : {&out_1, &out_2, &in}) finish(*stream, device);
  in_first.copy_back(bytes_of(first));
  in_second.copy_back(bytes_of(second));
  expect(first == numbers(count, peer.index()), "the message of tag 1 is the peer's");
  expect(second == numbers(count, 10 + peer.index()), "the message of tag 2 is the peer's");
}

/// Both are there, and the bytes that connected them have arrived: they go by the default stream,
/// for which a later copy waits, for ever where one of both is gone before it took its part.
void meet(World& world) {
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  world.barrier();
}

/// One is killed while the other waits for it in a collective. Whether NCCL says so first, or who
/// watches the processes, is as it comes: NCCL may say nothing at all.
void killed(World& world, NcclWorld& device) {
  const GroupSpec spec = all_of(2);
  device.create_groups({&spec, 1});
  meet(world);
  if (world.rank() == Rank(1)) raise(SIGKILL);
  std::vector<float> data = numbers(1 << 20, 0);
  const OnGpu memory(bytes_of(data));
  const Stream stream;
  const double begin_s = now_in_s();
  device.group(spec.members, "all")
      .enqueue(
          {Collective::all_reduce, DType::f32, Reduction::sum, {memory.bytes()}, {memory.bytes()}},
          stream.get());
  std::string heard;
  try {
    finish(stream, device);
  } catch (const std::exception& error) {
    heard = error.what();
  }
  std::printf("after %.2f s: %s\n", now_in_s() - begin_s, heard.c_str());
  // Before anything that waits for the device, such as giving back its memory.
  device.abort();
  std::printf("NCCL had ended after %.2f s\n", now_in_s() - begin_s);
  expect(!heard.empty(), "nobody can finish without its peer");
  while (!stream.is_done() && now_in_s() - begin_s < 10)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double took_s = now_in_s() - begin_s;
  std::printf("the device was free again after %.2f s\n", took_s);
  expect(took_s < 10, "a killed rank ends the other one within 10 s");
}

/// One gives up by itself while the other one's kernel waits: no word of NCCL is needed for it.
void aborted(World& world, NcclWorld& device) {
  const GroupSpec spec = all_of(2);
  device.create_groups({&spec, 1});
  meet(world);
  if (world.rank() == Rank(0)) {
    std::vector<float> data = numbers(1 << 20, 0);
    const OnGpu memory(bytes_of(data));
    const Stream stream;
    device.group(spec.members, "all")
        .enqueue({Collective::all_reduce,
                  DType::f32,
                  Reduction::sum,
                  {memory.bytes()},
                  {memory.bytes()}},
                 stream.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    expect(!stream.is_done(), "a collective waits for its other member");
    const double begin_s = now_in_s();
    std::thread([&] { device.abort(); }).join();
    check_cuda(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    const double took_s = now_in_s() - begin_s;
    std::printf("abort from another thread freed the device after %.2f s\n", took_s);
    expect(took_s < 10, "abort frees the device within 10 s");
  }
  world.barrier();
}

const std::map<std::string, std::function<void(World&, NcclWorld&)>> cases = {
    {"collectives", collectives}, {"graph", graph},   {"messages", messages},
    {"registered", registered},   {"killed", killed}, {"aborted", aborted}};

constexpr int refused = 77;
constexpr unsigned most_s_of_a_case = 30;  // after which the kernel ends a process

/// A process of two.
int run_rank(std::size_t rank, int socket, const std::string& name) {
  // Who is ended by the kernel has told how far it came.
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    check_cuda(cudaSetDevice(0), "cudaSetDevice");
    check_cuda(cudaFree(nullptr), "cudaFree");
    SocketWorld world(rank, socket);
    const double before_s = now_in_s(), before_mib = used_mib();
    std::unique_ptr<NcclWorld> device;
    try {
      device = std::make_unique<NcclWorld>(world, load_nccl(), NcclOptions{.time_out_s = 20});
      // Connections are made here, so that a refusal shows.
      const GroupSpec spec{"first", {Rank(0), Rank(1)}, 0};
      device->create_groups({&spec, 1});
    } catch (const UserError& error) {
      if (std::string_view(error.what()).find("Duplicate GPU") == std::string_view::npos) throw;
      std::printf("refused: %s\n", error.what());
      return refused;
    }
    if (rank == 0)
      std::printf("two ranks and a group took %.2f s and %.0f MiB of both\n", now_in_s() - before_s,
                  used_mib() - before_mib);
    cases.at(name)(world, *device);
    if (name != "killed") world.barrier();
    return 0;
  } catch (const std::exception& error) {
    std::printf("rank %zu: %s\n", rank, error.what());
    return 1;
  }
}

struct Ended {
  std::string said;
  std::array<int, 2> codes{};  // negative: the signal that ended it
};

/// Starts both ranks of a case, with all that they print.
Ended run_both(const std::string& name) {
  std::array<int, 2> sockets{}, output{};
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) == 0, "there are sockets");
  require(pipe(output.data()) == 0, "there are pipes");
  std::array<pid_t, 2> children{};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string number = std::to_string(rank), socket = std::to_string(sockets[rank]);
    children[rank] = fork();
    if (children[rank] != 0) continue;
    close(sockets[1 - rank]);
    dup2(output[1], STDOUT_FILENO);
    // Hosts of their own, so that two ranks may have one GPU; and no network but loopback.
    setenv("NCCL_HOSTID", ("host" + number).c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_NET", "Socket", 1);
    setenv("NCCL_MNNVL_ENABLE", "0", 1);
    alarm(most_s_of_a_case);
    execl("/proc/self/exe", "nccl_test", "--rank", number.c_str(), "--socket", socket.c_str(),
          "--case", name.c_str(), nullptr);
    _exit(127);
  }
  close(output[1]);
  for (const int socket : sockets) close(socket);
  Ended ended;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(output[0], buffer.data(), buffer.size())) > 0;)
    ended.said.append(buffer.data(), static_cast<std::size_t>(got));
  close(output[0]);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    ended.codes[rank] = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  return ended;
}

class NcclTwoOnDevice : public testing::TestWithParam<std::string> {};

TEST_P(NcclTwoOnDevice, two_processes_on_one_device) {
  const std::string reason = why_not();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Ended ended = run_both(GetParam());
  std::printf("%s", ended.said.c_str());
  if (std::ranges::count(ended.codes, refused) > 0) GTEST_SKIP() << "NCCL " << ended.said;
  EXPECT_EQ(ended.codes[0], 0) << ended.said;
  EXPECT_EQ(ended.codes[1], GetParam() == "killed" ? -SIGKILL : 0) << ended.said;
}
INSTANTIATE_TEST_SUITE_P(Every, NcclTwoOnDevice,
                         testing::Values("collectives", "graph", "messages", "registered", "killed",
                                         "aborted"),
                         [](const auto& name) { return name.param; });

}  // namespace

int run_as_rank(const std::string& rank, const std::string& socket, const std::string& name) {
  return run_rank(std::stoul(rank), std::stoi(socket), name);
}

}  // namespace fourfold::comm

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 7 && std::string(argv[1]) == "--rank")
    return fourfold::comm::run_as_rank(argv[2], argv[4], argv[6]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
