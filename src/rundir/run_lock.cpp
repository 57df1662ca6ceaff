#include "rundir/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/small_file.h"
#include "base/text.h"
#include "rundir/run_files.h"

namespace fourfold::rundir {
namespace {

constexpr std::size_t most_bytes = 1 << 16;
/// What follows the first line, which says who.
constexpr std::string_view beat_word = "beat ";

/// All of a small file, empty where it cannot be read; /proc knows no sizes.
std::string text_of(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text(most_bytes, '\0');
  const ssize_t got = file.is_open() ? ::read(file.number(), text.data(), text.size()) : -1;
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

std::string link_of(const std::string& path) {
  std::array<char, 256> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  return size < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(size));
}

/// In ticks since the machine started; 0: there is no such process, or it has ended and nobody has
/// asked how. The second word of the line may hold anything.
std::int64_t start_of(std::int64_t pid) {
  const std::string line = text_of(format("/proc/{}/stat", pid));
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos) return 0;
  const std::vector<std::string> words = split(line.substr(end + 2), ' ');
  constexpr std::size_t state = 0, start = 19;  // proc(5), fields 3 and 22
  if (words.size() <= start || words[state] == "Z" || words[state] == "X") return 0;
  return std::stoll(words[start]);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&now, &fields);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text.data();
}

std::string to_line(const LockHolder& h) {
  return Json::object({{"host", h.host},
                       {"boot", h.boot},
                       {"pids", h.pids},
                       {"pid", h.pid},
                       {"started", h.started},
                       {"job", h.job},
                       {"restart", h.restart},
                       {"since", h.since}})
      .dump();
}

/// Nothing where another program or half a write made the text.
std::optional<LockHolder> parse_holder(const std::string& text) {
  try {
    const Json json = parse_json(text.substr(0, text.find('\n')), "lock");
    const auto word = [&](const char* key) {
      const Json* value = json.find(key);
      const bool is_text = value != nullptr && value->kind() == Json::Kind::string;
      return is_text ? value->as_string() : std::string();
    };
    const auto number = [&](const char* key) -> std::int64_t {
      const Json* value = json.find(key);
      return value != nullptr && value->kind() == Json::Kind::integer ? value->as_integer() : 0;
    };
    if (number("pid") <= 0) return std::nullopt;
    return LockHolder{word("host"),      word("boot"), word("pids"),    number("pid"),
                      number("started"), word("job"),  word("restart"), word("since")};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string describe(const std::string& folder, const std::optional<LockHolder>& holder) {
  if (!holder) return format("{}/{} is no lock of a job that can be read", folder, RunFiles::lock);
  return format("{} is in use by a job on {} (pid {}{}{}, since {})", folder,
                Json(holder->host).dump(), holder->pid, holder->job.empty() ? "" : ", job ",
                Json(holder->job).dump() == "\"\"" ? "" : Json(holder->job).dump(),
                Json(holder->since).dump());
}

[[noreturn]] void refuse(const std::string& folder, const std::optional<LockHolder>& holder,
                         HolderState state) {
  const std::string choose = "choose another with --set run.dir=...";
  throw UserError(
      ExitCode::output_in_use,
      state == HolderState::alive
          ? format("{}; wait until it ends, or {}", describe(folder, holder), choose)
          : format("{}; whether that lives cannot be seen from here: if it does not, pass "
                   "--take-over, else {}",
                   describe(folder, holder), choose));
}

}  // namespace

LockHolder this_holder(const comm::Variable& variable) {
  LockHolder self;
  self.host = comm::own_placement().host;
  self.boot = std::string(trim(text_of("/proc/sys/kernel/random/boot_id")));
  self.pids = link_of("/proc/self/ns/pid");
  self.pid = ::getpid();
  self.started = start_of(self.pid);
  self.job = variable("SLURM_JOB_ID").value_or("");
  self.restart = variable("SLURM_RESTART_COUNT").value_or("0");
  self.since = now_text();
  return self;
}

bool is_running(const LockHolder& holder) {
  return start_of(holder.pid) == holder.started && holder.started != 0;
}

HolderState state_of(const LockHolder& holder, const LockHolder& own,
                     const std::function<bool(const LockHolder&)>& is_running) {
  const bool is_here =
      holder.host == own.host && holder.boot == own.boot && holder.pids == own.pids;
  if (is_here) return is_running(holder) ? HolderState::alive : HolderState::dead;
  if (!own.job.empty() && holder.job == own.job && holder.restart != own.restart)
    return HolderState::dead;
  // Containers have names and process numbers of their own; the id of the boot is the machine's.
  if (!own.boot.empty() && holder.boot == own.boot) return HolderState::here;
  return HolderState::unknown;
}

void require_unlocked(const std::string& folder, const LockHolder& own, bool take_over) {
  const std::string path = join_path(folder, RunFiles::lock), text = text_of(path);
  if (text.empty() && !file_exists(path)) return;
  const auto holder = parse_holder(text);
  const HolderState state = holder ? state_of(*holder, own, is_running) : HolderState::unknown;
  if (state == HolderState::alive || (state == HolderState::unknown && !take_over))
    refuse(folder, holder, state);
}

/// The file, and the thread that beats.
class RunLock::State {
 public:
  State(const std::string& folder, const LockHolder& own, LockOptions options)
      : folder_(absolute_path(folder)),
        path_(join_path(folder_, RunFiles::lock)),
        own_(own),
        options_(std::move(options)) {
    made_folder_ = !file_exists(folder_);
    make_directories(folder_);
    try {
      acquire();
    } catch (const UserError&) {
      leave_folder();
      throw;
    }
    heart_ = std::thread([this] { beat(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    wake_.notify_all();
    heart_.join();
    if (is_ours()) ::unlink(path_.c_str());
    leave_folder();
  }

 private:
  void acquire() {
    // One at a time on a machine, and where the file system can do it, among machines. Where it
    // cannot, the last of those who take a lock over at once keeps it, and the others see it.
    const Descriptor door(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (door.is_open()) ::flock(door.number(), LOCK_EX);
    constexpr int most_rounds = 5;
    for (int round = 0; round < most_rounds; ++round) {
      if (try_to_make()) return;
      make_way();
    }
    throw UserError(ExitCode::output_in_use,
                    format("{}: others take and leave this lock all the time; try again", path_));
  }

  /// Makes the lock, with its text at once, unless there is one.
  bool try_to_make() {
    const std::string text = format("{}\n{}{:012}\n", to_line(own_), beat_word, 0);
    beat_offset_ = static_cast<off_t>(to_line(own_).size() + 1 + beat_word.size());
    const std::string fresh = format("{}.{}-{}", path_, own_.host, own_.pid);
    ::unlink(fresh.c_str());
    file_ = Descriptor(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const bool is_written = file_.is_open() && ::write(file_.number(), text.data(), text.size()) ==
                                                   static_cast<ssize_t>(text.size());
    if (!is_written) fail(fresh);
    const bool is_made = ::link(fresh.c_str(), path_.c_str()) == 0;
    const int error = errno;
    ::unlink(fresh.c_str());
    if (is_made) return true;
    if (error == EEXIST) return false;
    if (error == EPERM || error == ENOTSUP || error == ENOSYS) return make_without_links(text);
    errno = error;
    fail(path_);
  }

  /// For file systems without second names.
  bool make_without_links(const std::string& text) {
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_.is_open() && errno == EEXIST) return false;
    if (!file_.is_open() || ::write(file_.number(), text.data(), text.size()) < 0) fail(path_);
    return true;
  }

  /// Removes the lock that is there if its job is gone. Errors: UserError(output_in_use).
  void make_way() const {
    const std::string text = text_of(path_);
    if (text.empty() && !file_exists(path_)) return;
    const auto holder = parse_holder(text);
    const HolderState state = holder ? state_of(*holder, own_, is_running) : HolderState::unknown;
    if (state != HolderState::dead) {
      if (!options_.take_over && state != HolderState::here) refuse(folder_, holder, state);
      expect_no_beat(holder, text);
    }
    if (text_of(path_) == text) ::unlink(path_.c_str());
  }

  void expect_no_beat(const std::optional<LockHolder>& holder, const std::string& text) const {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::duration<double>(options_.patience_s);
    while (Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.beat_s / 4));
      if (text_of(path_) != text && file_exists(path_))
        throw UserError(ExitCode::output_in_use,
                        format("{}; it is alive and keeps it{}", describe(folder_, holder),
                               options_.take_over ? ", whatever --take-over says"
                                                  : ": wait until it ends, or choose another with "
                                                    "--set run.dir=..."));
    }
  }

  void beat() {
    std::int64_t count = 0;
    std::unique_lock lock(mutex_);
    const auto interval = std::chrono::duration<double>(options_.beat_s);
    while (!wake_.wait_for(lock, interval, [&] { return has_ended_; })) {
      const std::string digits = format("{:012}", ++count);
      // What cannot be written now is written with the next beat.
      [[maybe_unused]] const ssize_t written =
          ::pwrite(file_.number(), digits.data(), digits.size(), beat_offset_);
      if (is_ours() || was_lost_) continue;
      was_lost_ = true;
      if (options_.on_lost)
        options_.on_lost(
            format("{} was taken by another job while this one stood still; this one "
                   "ends so that it does no harm",
                   folder_));
    }
  }

  /// True if the file at the path is still the one that was made.
  bool is_ours() const {
    struct stat here = {}, own = {};
    if (::stat(path_.c_str(), &here) != 0) return errno != ENOENT;
    return ::fstat(file_.number(), &own) == 0 && here.st_ino == own.st_ino &&
           here.st_dev == own.st_dev;
  }

  void leave_folder() const {
    // Fails, as it should, where anything is in it.
    if (made_folder_) ::rmdir(folder_.c_str());
  }

  [[noreturn]] static void fail(const std::string& path) {
    throw UserError(ExitCode::storage,
                    format("{}: cannot be made: {}; choose a folder that this user can write to",
                           path, std::strerror(errno)));
  }

  std::string folder_, path_;
  LockHolder own_;
  LockOptions options_;
  bool made_folder_ = false;
  Descriptor file_;
  off_t beat_offset_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool has_ended_ = false;  // under mutex_
  bool was_lost_ = false;
  std::thread heart_;
};

RunLock::RunLock(const std::string& folder, const LockHolder& own, LockOptions options)
    : state_(std::make_unique<State>(folder, own, std::move(options))) {}
RunLock::~RunLock() = default;

}  // namespace fourfold::rundir
