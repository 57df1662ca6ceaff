#include "verify/verify_job.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "base/parallel.h"
#include "program/text.h"
#include "verify/box.h"
#include "verify/exchange.h"
#include "verify/representatives.h"
#include "verify/rules.h"
#include "verify/same_class.h"

namespace fourfold::verify {
namespace {

constexpr std::size_t most_faults = 200;   // a broken compiler would fill the memory with them
constexpr std::size_t most_strangers = 8;  // ranks that must be alike and are not, kept for more

/// Which meshes have the rank.
std::vector<bool> meshes_of(const Bundle& bundle, Rank rank) {
  std::vector<bool> has;
  for (const Mesh& mesh : bundle.programs[0].meshes) has.push_back(mesh.ranks.has(rank));
  return has;
}

/// A number that siblings share: kinds of instructions and their streams. Ranks of other kinds
/// mostly have another one, so that few are compared in full.
std::uint64_t fingerprint(const Bundle& bundle) {
  std::uint64_t hash = 0;
  const auto mix = [&](std::size_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32U;
  };
  for (const Program& program : bundle.programs) {
    mix(program.instructions.size());
    for (const Instruction& instruction : program.instructions) {
      const auto* compute = std::get_if<Compute>(&instruction.what);
      mix(instruction.stream.index());
      mix(instruction.what.index());
      mix(compute != nullptr ? compute->op.index() : 0);
    }
  }
  return hash;
}

bool exchanges_messages(const Bundle& bundle) {
  for (const Program& program : bundle.programs)
    for (const Instruction& instruction : program.instructions)
      if (std::holds_alternative<Send>(instruction.what) ||
          std::holds_alternative<Recv>(instruction.what))
        return true;
  return false;
}

class JobCheck {
 public:
  explicit JobCheck(const program::Job& job)
      : input_(job),
        world_(job.ranks.size()),
        has_messages_(std::ranges::any_of(job.classes, exchanges_messages)) {}

  std::vector<Fault> run() {
    if (!check_bindings()) return std::move(faults_);
    job_.class_of.resize(world_);
    job_.exchanges.resize(world_);
    verify_programs();
    for (std::size_t i = 0; i < members_.size() && faults_.size() < most_faults; ++i)
      take_class(input_.classes[i], members_[i]);
    if (comparable_ && faults_.size() < most_faults) check_meetings();
    return std::move(faults_);
  }

  /// What ranks do together, and nothing else.
  std::vector<Fault> run_meetings() {
    if (!check_bindings()) return std::move(faults_);
    job_.class_of.resize(world_);
    job_.exchanges.resize(world_);
    for (std::size_t i = 0; i < members_.size() && comparable_; ++i)
      take_class_as_it_is(input_.classes[i], members_[i]);
    if (comparable_) check_meetings();
    return std::move(faults_);
  }

 private:
  /// What is known about a class: how far its first rank has been proved.
  struct Proof {
    std::vector<bool> meshes;
    std::uint64_t fingerprint = 0;
    bool operands_fit = false;
  };

  void add(Rank rank, std::vector<Fault> faults) {
    for (Fault& fault : faults) {
      fault.message = format("rank {}: {}", rank.index(), fault.message);
      fault.rank = rank;
      faults_.push_back(std::move(fault));
    }
  }
  void fault(Rank rank, std::string_view rule, std::string_view message) {
    faults_.push_back(
        {std::string(rule), std::nullopt, format("rank {}: {}", rank.index(), message), rank});
  }

  /// binding. Lists the ranks of each class.
  bool check_bindings() {
    members_.resize(input_.classes.size());
    for (std::size_t rank = 0; rank < world_; ++rank) {
      const std::size_t of_class = input_.ranks[rank].of_class;
      if (of_class < members_.size())
        members_[of_class].emplace_back(rank);
      else
        fault(Rank(rank), "binding", format("it is of class {} of {}", of_class, members_.size()));
    }
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (members_[i].empty())
        faults_.push_back({"binding", std::nullopt, format("class {} has no rank", i), {}});
    if (input_.classes.empty())
      faults_.push_back({"binding", std::nullopt, "the job has no class", {}});
    return faults_.empty();
  }

  /// The programs of the first class on each mesh, on all cores. Classes that come after it mostly
  /// are like it and need no proof of their own.
  void verify_programs() {
    faults_of_programs_.resize(input_.classes.size());
    std::set<std::vector<bool>> seen;
    std::vector<std::pair<std::size_t, std::size_t>> work;  // class, program
    for (std::size_t i = 0; i < input_.classes.size(); ++i) {
      const std::vector<Program>& programs = input_.classes[i].programs;
      if (programs.empty() || !seen.insert(meshes_of(input_.classes[i], members_[i][0])).second)
        continue;
      faults_of_programs_[i].resize(programs.size());
      for (std::size_t p = 0; p < programs.size(); ++p) work.emplace_back(i, p);
    }
    // The longest first, so that no core is left with it at the end.
    const auto length = [&](const auto& one) {
      return input_.classes[one.first].programs[one.second].instructions.size();
    };
    std::ranges::stable_sort(work, std::greater(), length);
    for_each_on_all_cores(work.size(), [&](std::size_t at) {
      const auto [i, p] = work[at];
      faults_of_programs_[i][p] = verify::verify(input_.classes[i].programs[p]);
    });
  }

  /// What ranks do together, on all cores. Progress is looked at as if all ranks matched; where
  /// they do not, once more.
  void check_meetings() {
    const std::vector<Program>& programs = job_.classes[0].bundle->programs;
    const std::size_t count = programs.size();
    // The longest first, as above.
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t program) {
      return programs[program].instructions.size();
    });
    const bool is_matched = faults_.empty();
    std::vector<std::vector<Fault>> unmatched(count), stuck(count);
    for_each_on_all_cores(2 * count, [&](std::size_t at) {
      const std::size_t program = order[at / 2];
      if (at % 2 == 0)
        check_matching(job_, program, unmatched[program]);
      else
        check_progress(job_, program, is_matched, stuck[program]);
    });
    for (std::size_t program = 0; program < count; ++program) {
      std::ranges::move(unmatched[program], std::back_inserter(faults_));
      if (is_matched && !faults_.empty()) {
        stuck[program].clear();
        check_progress(job_, program, false, stuck[program]);
      }
      std::ranges::move(stuck[program], std::back_inserter(faults_));
    }
  }

  std::vector<Fault> verify_class(const Bundle& bundle) {
    auto& known = faults_of_programs_[static_cast<std::size_t>(&bundle - input_.classes.data())];
    return known.empty() ? verify::verify(bundle) : verify_together(bundle, std::move(known));
  }

  /// The first rank of a class in full, then the others.
  void take_class(const Bundle& bundle, const std::vector<Rank>& ranks) {
    const auto proof = take(ranks[0], bundle);
    const std::vector<Channel> channels = channels_of(bundle);
    check_peers_of(channels, ranks);
    if (ranks.size() == 1 || !comparable_) return;
    // What cannot be proved of the first rank is not asked of the others.
    if (!proof || !proofs_[*proof].operands_fit) {
      comparable_ = false;
      return;
    }
    const std::vector<bool> meshes = meshes_of(bundle, ranks[0]);
    const Bundle own = representatives(bundle);
    for (std::size_t i = 1; i < ranks.size() && faults_.size() < most_faults; ++i) {
      if (!stands_as_its_class(bundle, ranks[i], ranks[0], meshes)) continue;
      const std::vector<Rank>& peers = input_.ranks[ranks[i].index()].peers;
      join(ranks[i], bound_to(own, ranks[i], peers), *proof);
      if (comparable_ && have_one_peer(channels, peers))
        check_order_of_messages(bound_to(bundle, ranks[i], peers), ranks[i]);
    }
  }

  /// The class is believed to be as its first rank says, of which the tables alone are looked at.
  void take_class_as_it_is(const Bundle& bundle, const std::vector<Rank>& ranks) {
    comparable_ = agrees(ranks[0], bundle);
    for (std::size_t p = 0; p < bundle.programs.size() && comparable_; ++p) {
      Report report(bundle.programs[p]);
      comparable_ = check_structure(bundle.programs[p], report);
      add(ranks[0], report.take());
    }
    if (comparable_) check_peers_of(channels_of(bundle), ranks);
    if (!comparable_) return;
    add_class(bundle);
    note(ranks[0], bundle, job_.classes.size() - 1);
    const std::vector<bool> meshes = meshes_of(bundle, ranks[0]);
    const Bundle own = representatives(bundle);
    for (std::size_t i = 1; i < ranks.size(); ++i)
      if (stands_as_its_class(bundle, ranks[i], ranks[0], meshes))
        note(ranks[i], bound_to(own, ranks[i], input_.ranks[ranks[i].index()].peers),
             job_.classes.size() - 1);
  }

  /// binding: each rank has a peer for each channel of its class, the first one that of the class.
  void check_peers_of(const std::vector<Channel>& channels, const std::vector<Rank>& ranks) {
    for (const Rank rank : ranks)
      if (input_.ranks[rank.index()].peers.size() != channels.size()) {
        fault(rank, "binding",
              format("it has {} peers, its class has {} channels",
                     input_.ranks[rank.index()].peers.size(), channels.size()));
        comparable_ = false;
      }
    for (std::size_t i = 0; i < channels.size() && comparable_; ++i)
      if (input_.ranks[ranks[0].index()].peers[i] != channels[i].peer) {
        fault(ranks[0], "binding",
              format("its peer {} is rank {}, that of its class is rank {}", i,
                     input_.ranks[ranks[0].index()].peers[i].index(), channels[i].peer.index()));
        comparable_ = false;
      }
  }

  bool stands_as_its_class(const Bundle& bundle, Rank rank, Rank first,
                           const std::vector<bool>& meshes) {
    if (meshes_of(bundle, rank) == meshes) return true;
    fault(rank, "binding",
          format("it does not stand on the meshes of its class, as rank {} does", first.index()));
    comparable_ = false;
    return false;
  }

  /// True if messages of one tag go to one peer, or come from one, in two channels: in two on the
  /// first rank of the class, which has another peer in each.
  static bool have_one_peer(const std::vector<Channel>& channels, const std::vector<Rank>& peers) {
    std::set<std::tuple<bool, std::int64_t, Rank>> seen;
    for (std::size_t i = 0; i < channels.size(); ++i)
      if (!seen.insert({channels[i].sends, channels[i].tag, peers[i]}).second) return true;
    return false;
  }

  /// order: the only rule that asks which peers are one.
  void check_order_of_messages(const Bundle& bundle, Rank rank) {
    for (const Program& program : bundle.programs) {
      Report report(program);
      if (check_order(program, report)) check_memory(program, report);
      std::vector<Fault> faults = report.take();
      std::erase_if(faults, [](const Fault& fault) { return fault.rule != "order"; });
      add(rank, std::move(faults));
    }
  }

  /// The class of this job's proofs that the bundle is of; nothing where it cannot be proved.
  std::optional<std::size_t> take(Rank rank, const Bundle& bundle) {
    if (!agrees(rank, bundle)) {
      comparable_ = false;
      return std::nullopt;
    }
    const std::vector<bool> meshes = meshes_of(bundle, rank);
    std::vector<std::size_t> kin;  // classes of the same meshes
    for (std::size_t i = 0; i < job_.classes.size(); ++i)
      if (proofs_[i].meshes == meshes) kin.push_back(i);
    const std::uint64_t print = kin.size() == 1 ? proofs_[kin[0]].fingerprint : fingerprint(bundle);
    for (const std::size_t i : kin)
      if (proofs_[i].fingerprint == print && !difference(*job_.classes[i].bundle, bundle)) {
        join(rank, bundle, i);
        return i;
      }
    const auto first = kin.empty() ? std::nullopt : std::optional(kin[0]);
    // In a pipeline, who sends what to another mesh depends on the sizes of both: a rank may have
    // more messages than its siblings, or none. Each kind is then proved by itself, however many
    // there are.
    const bool may_differ =
        (exchanges_messages(bundle) ||
         std::ranges::any_of(
             kin, [&](std::size_t i) { return exchanges_messages(*job_.classes[i].bundle); })) &&
        same_persistent(bundle, first);
    if (first && !may_differ && !tell_stranger(rank, bundle, *first)) return std::nullopt;
    found_class(rank, bundle, {meshes, fingerprint(bundle), true});
    if (!kin.empty() && may_differ && comparable_) check_computed(rank, kin[0]);
    return comparable_ ? std::optional(proofs_.size() - 1) : std::nullopt;
  }

  /// class: whatever a class has of messages, its ranks compute what others of the same meshes do,
  /// on the same streams in the same order.
  void check_computed(Rank rank, std::size_t sibling) {
    const PositionClass &one = job_.classes[sibling], &other = job_.classes.back();
    for (std::size_t p = 0; p < one.bundle->programs.size(); ++p) {
      const Program &theirs = one.bundle->programs[p], &own = other.bundle->programs[p];
      for (std::size_t stream = 0; stream < theirs.streams.size(); ++stream) {
        const auto place = std::ranges::find(own.streams, theirs.streams[stream]);
        static const std::vector<Computed> none;
        const auto& wanted = one.skeletons[p].values.computed[stream];
        const auto& found =
            place == own.streams.end()
                ? none
                : other.skeletons[p]
                      .values.computed[static_cast<std::size_t>(place - own.streams.begin())];
        const auto differ =
            std::ranges::mismatch(wanted, found, {}, &Computed::hash, &Computed::hash);
        if (differ.in1 == wanted.end() && differ.in2 == found.end()) continue;
        Report report(own);
        const std::string text =
            differ.in1 == wanted.end()
                ? format("rank {} of the same meshes computes nothing more on stream {}",
                         theirs.rank.index(), theirs.streams[stream])
                : format(
                      "rank {} of the same meshes computes instruction {} ({}) next on stream {}, "
                      "from other values than are here or in another way",
                      theirs.rank.index(), differ.in1->instruction,
                      short_text(theirs, theirs.instructions[differ.in1->instruction]),
                      theirs.streams[stream]);
        if (differ.in2 == found.end())
          report.fault("class", text);
        else
          report.fault("class", differ.in2->instruction, text);
        add(rank, report.take());
        break;
      }
    }
  }

  /// Reports a rank that is not what its siblings are. False where there are so many that ranks
  /// need not be held against each other any more.
  bool tell_stranger(Rank rank, const Bundle& bundle, std::size_t sibling) {
    if (const auto found = difference(*job_.classes[sibling].bundle, bundle))
      report(rank, bundle, *found);
    if (++strangers_ > most_strangers) comparable_ = false;
    return comparable_;
  }

  /// True if persistent memory is that of a class, if there is one.
  bool same_persistent(const Bundle& bundle, const std::optional<std::size_t>& sibling) const {
    const auto persistent = [](const Program& program) {
      std::vector<Buffer> list;
      for (const Buffer& buffer : program.buffers)
        if (buffer.region == Region::persistent) list.push_back(buffer);
      return list;
    };
    for (std::size_t p = 0; sibling && p < bundle.programs.size(); ++p) {
      const Program &one = job_.classes[*sibling].bundle->programs[p], &other = bundle.programs[p];
      if (one.persistent_bytes != other.persistent_bytes || persistent(one) != persistent(other))
        return false;
    }
    return true;
  }

  /// True if the bundle is that of a rank of this job at all.
  bool agrees(Rank rank, const Bundle& bundle) {
    const std::size_t before = faults_.size();
    if (bundle.programs.empty()) fault(rank, "bundle", "it has no programs");
    for (const Program& program : bundle.programs) {
      if (program.rank != rank)
        fault(
            rank, "bundle",
            format("{} is the program of rank {}", to_string(program.kind), program.rank.index()));
      if (program.world != static_cast<std::int64_t>(world_))
        fault(rank, "bundle",
              format("{} is for {} ranks, the job has {}", to_string(program.kind), program.world,
                     world_));
    }
    if (faults_.size() == before && !job_.classes.empty())
      compare_tables(rank, *job_.classes[0].bundle, bundle);
    return faults_.size() == before;
  }

  void compare_tables(Rank rank, const Bundle& first, const Bundle& bundle) {
    if (bundle.programs.size() != first.programs.size()) {
      fault(rank, "bundle",
            format("it has {} programs, rank {} {}", bundle.programs.size(),
                   first.programs[0].rank.index(), first.programs.size()));
      return;
    }
    for (std::size_t i = 0; i < first.programs.size(); ++i) {
      const Program &one = first.programs[i], &other = bundle.programs[i];
      if (one.kind != other.kind)
        fault(rank, "bundle",
              format("program {} is {}, that of rank {} is {}", i, to_string(other.kind),
                     one.rank.index(), to_string(one.kind)));
      if (one.meshes != other.meshes)
        fault(rank, "bundle",
              format("{}: its meshes are not those of rank {}", to_string(other.kind),
                     one.rank.index()));
    }
  }

  void report(Rank rank, const Bundle& bundle, const Difference& found) {
    const Program& program = bundle.programs[found.program];
    Report report(program);
    if (found.instruction)
      report.fault("class", *found.instruction, found.message);
    else
      report.fault("class", found.message);
    add(rank, report.take());
  }

  void found_class(Rank rank, const Bundle& bundle, Proof proof) {
    // A few programs that do not even hang together say enough.
    if (!comparable_ && ++broken_ > most_strangers) return;
    add(rank, verify_class(bundle));
    for (const Program& program : bundle.programs) {
      Report report(program);
      comparable_ = comparable_ && check_structure(program, report);
      if (!report.empty()) proof.operands_fit = false;
      if (report.empty()) check_operands(program, report);
      proof.operands_fit = proof.operands_fit && report.empty();
    }
    if (!comparable_) return;
    add_class(bundle);
    proofs_.push_back(std::move(proof));
    note(rank, bundle, job_.classes.size() - 1);
  }

  void add_class(const Bundle& bundle) {
    PositionClass& added = job_.classes.emplace_back(PositionClass{&bundle, {}});
    for (const Program& program : bundle.programs)
      added.skeletons.push_back(skeleton(program, has_messages_, job_.terms));
  }

  /// A sibling of a rank that has been verified: what may differ is judged here.
  void join(Rank rank, const Bundle& bundle, std::size_t index) {
    bool in_bounds = true;
    for (const Program& program : bundle.programs) {
      Report report(program);
      in_bounds = check_peers(program, report) && in_bounds;
      check_members(program, report);
      if (proofs_[index].operands_fit) {
        Claims claims(program);
        check_feeds(claims, report);
        check_attributes(claims, report);
        check_own_blocks(claims, report);
      }
      add(rank, report.take());
    }
    comparable_ = comparable_ && in_bounds;
    if (comparable_) check_padding(rank, index);
    if (comparable_) note(rank, bundle, index);
  }

  /// class: what was taken for padding on the first rank of a class, and is zero there, is padding
  /// on the others.
  void check_padding(Rank rank, std::size_t index) {
    const PositionClass& proved = job_.classes[index];
    for (std::size_t p = 0; p < proved.skeletons.size(); ++p) {
      const Program& program = proved.bundle->programs[p];
      std::vector<BufferId> padded = proved.skeletons[p].values.with_padding;
      if (padded.empty()) continue;
      Program own;  // all that tells where padding begins
      own.kind = program.kind;
      own.rank = rank;
      own.world = program.world;
      own.meshes = program.meshes;
      own.buffers = program.buffers;
      Claims first_claims(program), own_claims(own);
      std::ranges::sort(padded);
      for (const auto end = std::ranges::unique(padded).begin();
           const BufferId id : std::ranges::subrange(padded.begin(), end))
        if (sizes_without_padding(first_claims, id) != sizes_without_padding(own_claims, id))
          fault(rank, "class",
                format("{}: {} is padded elsewhere than on rank {}, where zero is read as padding",
                       to_string(program.kind), program.buffer(id).name, program.rank.index()));
    }
  }

  void note(Rank rank, const Bundle& bundle, std::size_t index) {
    std::vector<Exchange>& exchanges = job_.exchanges[rank.index()];
    for (const Program& program : bundle.programs) {
      Claims claims(program);
      exchanges.push_back(exchange(claims, job_.terms, job_.communicators));
    }
    job_.class_of[rank.index()] = index;
  }

  const program::Job& input_;
  std::size_t world_;
  bool has_messages_;
  std::vector<std::vector<Rank>> members_;                           // of each class of the input
  std::vector<std::vector<std::vector<Fault>>> faults_of_programs_;  // likewise, where known
  std::vector<Fault> faults_;
  CheckedJob job_;
  std::vector<Proof> proofs_;  // of each class
  std::size_t broken_ = 0, strangers_ = 0;
  bool comparable_ =
      true;  // whether ranks can be held against each other; if not, a fault says why
};

}  // namespace

std::vector<Fault> verify(const program::Job& job) {
  return JobCheck(job).run();
}

std::vector<Fault> verify_meetings(const program::Job& job) {
  return JobCheck(job).run_meetings();
}

}  // namespace fourfold::verify
