#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "comm/clock.h"
#include "comm/connection.h"
#include "comm/memory_killer.h"
#include "comm/monitor.h"
#include "comm/star.h"
#include "comm/status.h"
#include "comm/termination.h"
#include "comm/watch.h"

namespace fourfold::comm {
namespace {

constexpr double beat_s = 0.25;
/// How long SIGTERM waits for news of a death. Open MPI's mpirun sends SIGKILL a second after it.
constexpr double term_grace_s = 0.5;
/// How long a rank stays so that its last words arrive, with ranks and with the launcher, and how
/// long an end that a faulty rank asked for may take.
constexpr double last_words_s = 0.2, end_patience_s = 5;
/// How long ranks let another one speak, when rank 0 is lost: longer than a launcher takes to tell
/// all that one has ended.
constexpr double second_turn_s = 1.5;
/// How long the last process of a job may take to end where nobody says.
constexpr double exit_patience_s = 60;

// What messages are.
constexpr char state = 'S', fault = 'F', death = 'D', hang = 'K', leaves = 'B';

std::string fault_line(ExitCode code, std::string_view message, std::size_t late = 0) {
  return Json::object(
             {{"code", static_cast<std::int64_t>(code)}, {"message", message}, {"late", late}})
      .dump();
}

struct End {
  Fault fault;
  std::size_t late = 0;
};
End parse_end(const std::string& line) {
  const Json json = parse_json(line, "a rank's message");
  return {
      {static_cast<ExitCode>(json.find("code")->as_integer()), json.find("message")->as_string()},
      static_cast<std::size_t>(json.find("late")->as_integer())};
}

/// True for a process of this host that lives.
bool is_alive(std::int64_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0;
}

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

/// All members but those marked belong to the watching thread once it runs.
class MpiMonitor::Watch {
 public:
  Watch(MpiWorld& world, MonitorOptions options)
      : world_(world), options_(std::move(options)), peers_(world.size()) {
    if (!options_.say) options_.say = say_on_stderr;
    status_folder_ = options_.status_folder;
    meet();
    const bool alone =
        std::ranges::none_of(peers_, [](const Peer& peer) { return peer.connection.is_open(); });
    if (is_root() && size() > 1 && alone)
      options_.say(
          "warning: ranks cannot connect to rank 0 by TCP; only the launcher will notice "
          "when one dies or hangs");
    world_.set_end([this](ExitCode code, std::string_view message) { ask_end(code, message); });
    thread_ = std::thread([this] { loop(); });
  }

  ~Watch() {
    world_.set_end(nullptr);
    stop_.store(true);
    alarm_.ring();
    if (thread_.joinable()) thread_.join();
  }

  void set_options(MonitorOptions options) {
    const std::lock_guard lock(mutex_);
    status_folder_ = options.status_folder;
    wanted_options_ = std::move(options);
  }

  void finish() {
    world_.barrier();
    if (status_folder_.empty()) return;
    comm::write_status(status_folder_,
                       {world_.rank(), peers_[me()].known.host, getpid(), ExitCode::done, ""});
  }

  void part() {
    world_.set_end(nullptr);
    parting_.store(true);
    alarm_.ring();
    thread_.join();
  }

 private:
  struct Peer {
    RankState known;  // as it last told; host and pid from the start
    Connection connection;
    Age age{0};
    bool left = false;
  };

  std::size_t size() const { return peers_.size(); }
  std::size_t me() const { return world_.rank().index(); }
  bool is_root() const { return me() == 0; }

  /// Everybody's host and process, and the connections.
  void meet() {
    std::vector<std::string> hosts;
    for (const std::string& text : world_.all_gather(format("{} {}", getpid(), world_.host()))) {
      const std::vector<std::string> words = split(text, ' ');
      RankState& known = peers_[hosts.size()].known;
      known.rank = Rank(hosts.size());
      known.pid = std::stoll(words[0]);
      known.host = words[1];
      hosts.push_back(words[1]);
    }
    std::vector<Connection> connections = connect_star(world_, hosts);
    for (std::size_t rank = 0; rank < size(); ++rank) {
      peers_[rank].connection = std::move(connections[rank]);
      peers_[rank].age = Age(now_s());
    }
  }

  void loop() {
    while (!stop_.load() && !may_go()) {
      sleep_until_news();
      for (int terms = alarm_.answer(); terms > 0 && !term_s_; --terms)
        if (!may_stay()) term_s_ = now_s();
      for (std::size_t rank = 0; rank < size(); ++rank) listen_to(rank);
      look_for_requests();
      if (now_s() >= next_beat_s_) beat();
    }
  }

  /// True where SIGTERM does not end this process. To a rank that is about to leave well it says
  /// nothing new: a launcher sends it to those that leave after one whose code is not 0.
  bool may_stay() const {
    return parting_.load() || (options_.ask_to_stop && options_.ask_to_stop());
  }

  /// True when this rank may end well: rank 0 once the others are gone, they once rank 0 has said
  /// that all are done.
  bool may_go() {
    if (!parting_.load()) return false;
    const bool all_done = std::ranges::all_of(
        peers_, [](const Peer& peer) { return peer.left || !peer.connection.is_open(); });
    if (!farewell_s_ && (!is_root() || all_done)) {
      tell_all({leaves, ""});
      farewell_s_ = now_s();
    }
    if (!is_root()) {
      if (all_done) keep_open_till_exit(peers_[0].connection);
      return all_done;
    }
    const Peer* const here = someone_here();
    if (here == nullptr) see_off_this_process(patience_s());
    return here == nullptr;
  }

  /// When this connection ends, rank 0 takes the process for gone: nothing else may close it
  /// before.
  static void keep_open_till_exit(const Connection& connection) {
    if (connection.is_open()) ::fcntl(connection.number(), F_DUPFD_CLOEXEC, 0);
  }

  /// The first whose process is not known to be gone.
  const Peer* someone_here() const {
    const auto peer =
        std::ranges::find_if(peers_, [](const Peer& other) { return other.connection.is_open(); });
    return peer == peers_.end() ? nullptr : &*peer;
  }

  double patience_s() const {
    return options_.watchdog_s > 0 ? options_.watchdog_s : exit_patience_s;
  }

  void sleep_until_news() {
    std::vector<pollfd> entries{{alarm_.number(), POLLIN, 0}};
    for (const Peer& peer : peers_)
      if (peer.connection.is_open()) {
        const short unsent = peer.connection.has_unsent() ? POLLOUT : 0;
        entries.push_back({peer.connection.number(), static_cast<short>(POLLIN | unsent), 0});
      }
    const double left_s = std::clamp(next_beat_s_ - now_s(), 0.0, beat_s);
    ::poll(entries.data(), entries.size(), static_cast<int>(1000 * left_s) + 1);
  }

  void listen_to(std::size_t rank) {
    Peer& peer = peers_[rank];
    if (!peer.connection.is_open()) return;
    peer.connection.flush();
    bool ended = false;
    for (const Message& message : peer.connection.receive(ended)) hear(rank, message);
    if (!ended) return;
    peer.connection.close();
    if (!peer.left) end_after_death(rank);
  }

  void hear(std::size_t rank, const Message& message) {
    if (message.kind == state) {
      if (auto told = parse_state(message.text)) learn(rank, std::move(*told));
    } else if (message.kind == leaves) {
      peers_[rank].left = true;
    } else if (message.kind == fault) {
      const End end = parse_end(message.text);
      if (is_root()) end_after_fault(end.fault);
      end_process(end.fault, "", std::nullopt);
    } else if (message.kind == death) {
      if (auto told = parse_state(message.text)) {
        const std::size_t dead = told->rank.index();
        if (dead < size()) learn(dead, std::move(*told));
        if (dead < size()) end_after_death(dead);
      }
    } else if (message.kind == hang) {
      const End end = parse_end(message.text);
      kill_if_here(end.late);
      end_process(end.fault, "", std::nullopt);
    }
  }

  void learn(std::size_t rank, RankState told) {
    Peer& peer = peers_[rank];
    told.rank = Rank(rank);
    told.host = peer.known.host;
    told.pid = peer.known.pid;
    peer.known = std::move(told);
    peer.age.told(now_s(), peer.known.ticks);
  }

  void look_for_requests() {
    std::optional<Fault> wanted;
    {
      const std::lock_guard lock(mutex_);
      wanted = std::exchange(wanted_end_, std::nullopt);
    }
    take_options();
    if (wanted) {
      if (is_root() || !peers_[0].connection.is_open()) end_after_fault(*wanted);
      peers_[0].connection.send({fault, fault_line(wanted->code, wanted->message)});
    }
    const double now = now_s();
    if (term_s_ && now - *term_s_ > term_grace_s) {
      tell_all({leaves, ""});
      // As a shell would report it; not a code of ours.
      write_status(static_cast<ExitCode>(128 + 15), "ended by SIGTERM");
      end_by_sigterm();
    }
  }

  void take_options() {
    const std::lock_guard lock(mutex_);
    if (!wanted_options_) return;
    wanted_options_->say = options_.say;
    options_ = *std::exchange(wanted_options_, std::nullopt);
  }

  void beat() {
    const double now = now_s();
    if (now - next_beat_s_ > options_.watchdog_s / 2) {  // slept itself, with the whole process
      for (Peer& peer : peers_) peer.age = Age(now);
      if (farewell_s_) farewell_s_ = now;
    }
    next_beat_s_ = now + beat_s;
    learn(me(), state_of(world_.rank(), world_.progress()));
    tell_all({state, to_line(peers_[me()].known)});
    if (options_.watchdog_s <= 0) return;
    const Peer* const here = someone_here();
    if (is_root() && farewell_s_ && here != nullptr && now - *farewell_s_ > options_.watchdog_s)
      end_after_hang(late_to_end(here->known, now - *farewell_s_));
    std::vector<RankState> states;
    for (const Peer& peer : peers_) {
      // Others than rank 0 hear rank 0 alone.
      const bool heard = &peer == &peers_[me()] || peer.connection.is_open();
      if (!heard || peer.left) continue;
      states.push_back(peer.known);
      states.back().silent_s = peer.age.silent_s(now);
      states.back().unchanged_s = is_root() ? peer.age.unchanged_s(now) : 0;
    }
    if (const auto verdict = judge(states, options_.watchdog_s)) end_after_hang(*verdict);
  }

  [[noreturn]] void end_after_death(std::size_t dead) {
    if (is_root()) tell_all({death, to_line(peers_[dead].known)});
    RankState self = state_of(world_.rank(), world_.progress());
    self.host = world_.host();
    self.pid = getpid();
    std::string message = death_notice(peers_[dead].known, self);
    if (peers_[dead].known.host == self.host)
      message += memory_kill_notice(memory_kills_before_, memory_kills());
    end_process({ExitCode::peer_lost, message}, peers_[dead].known.host, turn_after_death_s(dead),
                {"error: " + message});
  }

  /// One rank speaks of the loss of another: rank 0; of its own, the first one that lives on its
  /// host. Those of other hosts wait, and speak where nobody has. Nothing for those that do not
  /// speak.
  std::optional<double> turn_after_death_s(std::size_t dead) const {
    if (is_root()) return 0;
    if (dead != 0 || !is_first_alive_here()) return std::nullopt;
    return peers_[0].known.host == world_.host() ? 0 : second_turn_s;
  }
  /// Each rank finds out for itself that rank 0 is silent, some a beat later than others, when the
  /// first one may have spoken and gone. So only the next one speaks at once.
  double turn_after_hang_s() const {
    const bool is_next = peers_[0].known.host == world_.host() &&
                         std::ranges::none_of(before_me(), [this](const Peer& peer) {
                           return peer.known.host == world_.host();
                         });
    return is_root() || is_next ? 0 : second_turn_s;
  }

  /// Without rank 0 and this one.
  std::span<const Peer> before_me() const {
    return std::span(peers_).subspan(1, me() > 0 ? me() - 1 : 0);
  }
  bool is_first_alive_here() const {
    return std::ranges::none_of(before_me(), [this](const Peer& peer) {
      return peer.known.host == world_.host() && is_alive(peer.known.pid);
    });
  }

  [[noreturn]] void end_after_hang(const Verdict& verdict) {
    const Fault reason{ExitCode::no_progress, verdict.message};
    kill_if_here(verdict.late.index());
    // If rank 0 itself is late, it is told in case it wakes; each finds out alone.
    tell_all({hang, fault_line(reason.code, reason.message, verdict.late.index())});
    std::vector<std::string> lines = verdict.dump;
    lines.push_back("error: " + reason.message);
    end_process(reason, peers_[verdict.late.index()].known.host, turn_after_hang_s(), lines);
  }

  /// A fault of one rank, or a stop that it was asked for before there was anything to save, which
  /// rank 0 says for all.
  [[noreturn]] void end_after_fault(const Fault& reason) {
    tell_all({fault, fault_line(reason.code, reason.message)});
    const bool is_fault = reason.code != ExitCode::stopped;
    end_process(reason, "", 0, {(is_fault ? "error: " : "") + reason.message});
  }

  void kill_if_here(std::size_t rank) const {
    const bool here = peers_[rank].known.host == world_.host();
    if (here && rank != me()) kill_later(peers_[rank].known.pid);
  }

  /// Rank 0 tells all, others tell rank 0.
  void tell_all(const Message& message) {
    for (Peer& peer : peers_)
      if (peer.connection.is_open()) peer.connection.send(message);
  }

  /// `host`: of the rank at fault, empty where there is none. `turn_s`: when to say the lines, if
  /// at all. Those of the one that speaks at once go first: a status waits for the disk, and the
  /// launcher stops listening soon.
  [[noreturn]] void end_process(const Fault& reason, const std::string& host,
                                std::optional<double> turn_s,
                                const std::vector<std::string>& lines = {}) {
    ignore_broken_pipes();
    take_options();
    const auto say = [&] {
      for (const std::string& line : lines) options_.say(line);
      if (options_.ended) options_.ended(reason.code, host);
    };
    if (turn_s == 0) say();
    write_status(reason.code, reason.message);
    if (options_.before_exit) options_.before_exit();
    if (turn_s > 0) {
      // A launcher sends SIGTERM to all when one has ended, which has spoken then.
      const double turn = now_s() + *turn_s;
      while (now_s() < turn && alarm_.answer() == 0) pause(0.05);
      if (now_s() >= turn && is_first_alive_here()) say();
    }
    // A connection that closes with unread bytes may take its last words along, and the first to
    // leave everybody's output: those with nothing to say stay longer.
    const double deadline = now_s() + (turn_s ? last_words_s : 2 * last_words_s);
    while (now_s() < deadline) {
      for (Peer& peer : peers_) {
        bool ended = !peer.connection.is_open();
        if (ended) continue;
        peer.connection.flush();
        peer.connection.receive(ended);
        if (ended) peer.connection.close();
      }
      pause(0.01);
    }
    std::_Exit(static_cast<int>(reason.code));
  }

  void write_status(ExitCode code, const std::string& message) const {
    if (options_.status_folder.empty()) return;
    comm::write_status(options_.status_folder,
                       {world_.rank(), world_.host(), getpid(), code, message});
  }

  /// From a thread that met a fault: the watching thread ends the process meanwhile.
  void ask_end(ExitCode code, std::string_view message) {
    {
      const std::lock_guard lock(mutex_);
      wanted_end_ = Fault{code, std::string(message)};
    }
    alarm_.ring();
    pause(end_patience_s);
  }

  MpiWorld& world_;
  MonitorOptions options_;
  Alarm alarm_;  // any thread may ring it
  std::vector<Peer> peers_;
  double next_beat_s_ = now_s();
  const std::optional<std::int64_t> memory_kills_before_ = memory_kills();
  std::optional<double> term_s_;
  std::optional<double> farewell_s_;  // when this rank has told the others that it is done

  std::string status_folder_;  // of the constructing thread
  std::mutex mutex_;
  std::optional<Fault> wanted_end_;               // under mutex_
  std::optional<MonitorOptions> wanted_options_;  // under mutex_
  // Set by the constructing thread: this rank is done; it unwinds.
  std::atomic<bool> parting_{false}, stop_{false};
  std::thread thread_;
};

MpiMonitor::MpiMonitor(MpiWorld& world, MonitorOptions options)
    : watch_(std::make_unique<Watch>(world, std::move(options))) {}

MpiMonitor::~MpiMonitor() = default;

void MpiMonitor::set_options(MonitorOptions options) {
  watch_->set_options(std::move(options));
}

void MpiMonitor::finish() {
  watch_->finish();
}

void MpiMonitor::part() {
  watch_->part();
}

}  // namespace fourfold::comm
