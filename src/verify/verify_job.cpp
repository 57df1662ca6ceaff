#include "verify/verify_job.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "program/text.h"
#include "verify/exchange.h"
#include "verify/rules.h"
#include "verify/same_class.h"

namespace fourfold::verify {
namespace {

constexpr std::size_t most_faults = 200;   // a broken compiler would fill the memory with them
constexpr std::size_t most_strangers = 8;  // ranks that must be alike and are not, kept for more

/// Which meshes have the rank.
std::vector<bool> meshes_of(const Bundle& bundle, Rank rank) {
  std::vector<bool> has;
  for (const Mesh& mesh : bundle.programs[0].meshes)
    has.push_back(std::find(mesh.ranks.begin(), mesh.ranks.end(), rank) != mesh.ranks.end());
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
  JobCheck(std::int64_t world, const std::function<const Bundle&(Rank)>& bundle_of)
      : world_(static_cast<std::size_t>(world)), bundle_of_(bundle_of) {}

  std::vector<Fault> run() {
    for (std::size_t rank = 0; rank < world_ && faults_.size() < most_faults; ++rank)
      take(Rank(rank), bundle_of_(Rank(rank)));
    if (comparable_ && job_.class_of.size() == world_ && world_ > 0)
      for (std::size_t i = 0; i < job_.classes[0].bundle.programs.size(); ++i) {
        check_matching(job_, i, faults_);
        check_progress(job_, i, faults_);
      }
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

  void take(Rank rank, const Bundle& bundle) {
    if (!agrees(rank, bundle)) {
      comparable_ = false;
      return;
    }
    const std::vector<bool> meshes = meshes_of(bundle, rank);
    std::vector<std::size_t> kin;  // classes of the same meshes
    for (std::size_t i = 0; i < job_.classes.size(); ++i)
      if (proofs_[i].meshes == meshes) kin.push_back(i);
    const std::uint64_t print = kin.size() == 1 ? proofs_[kin[0]].fingerprint : fingerprint(bundle);
    for (const std::size_t i : kin)
      if (proofs_[i].fingerprint == print && !difference(job_.classes[i].bundle, bundle))
        return join(rank, bundle, i);
    const auto first = kin.empty() ? std::nullopt : std::optional(kin[0]);
    // In a pipeline, who sends what to another mesh depends on the sizes of both: a rank may have
    // more messages than its siblings. Each kind is then proved by itself, however many there are.
    const bool may_differ = exchanges_messages(bundle) && same_persistent(bundle, first);
    if (first && !may_differ && !tell_stranger(rank, bundle, *first)) return;
    found_class(rank, bundle, {meshes, fingerprint(bundle), true});
  }

  /// Reports a rank that is not what its siblings are. False where there are so many that ranks
  /// need not be held against each other any more.
  bool tell_stranger(Rank rank, const Bundle& bundle, std::size_t sibling) {
    if (const auto found = difference(job_.classes[sibling].bundle, bundle))
      report(rank, bundle, *found);
    if (++strangers_ > most_strangers) comparable_ = false;
    return comparable_;
  }

  /// Whether persistent memory is that of a class, if there is one.
  bool same_persistent(const Bundle& bundle, const std::optional<std::size_t>& sibling) const {
    const auto persistent = [](const Program& program) {
      std::vector<Buffer> list;
      for (const Buffer& buffer : program.buffers)
        if (buffer.region == Region::persistent) list.push_back(buffer);
      return list;
    };
    for (std::size_t p = 0; sibling && p < bundle.programs.size(); ++p) {
      const Program &one = job_.classes[*sibling].bundle.programs[p], &other = bundle.programs[p];
      if (one.persistent_bytes != other.persistent_bytes || persistent(one) != persistent(other))
        return false;
    }
    return true;
  }

  /// Whether the bundle is that of a rank of this job at all.
  bool agrees(Rank rank, const Bundle& bundle) {
    const std::size_t before = faults_.size();
    if (bundle.programs.empty()) fault(rank, "bundle", "it has no programs");
    for (const Program& program : bundle.programs) {
      if (program.rank != rank)
        fault(rank, "bundle",
              format("{} is the program of rank {}", program.name, program.rank.index()));
      if (program.world != static_cast<std::int64_t>(world_))
        fault(rank, "bundle",
              format("{} is for {} ranks, the job has {}", program.name, program.world, world_));
    }
    if (faults_.size() == before && !job_.classes.empty())
      compare_tables(rank, job_.classes[0].bundle, bundle);
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
      if (one.name != other.name)
        fault(rank, "bundle",
              format("program {} is {}, that of rank {} is {}", i, other.name, one.rank.index(),
                     one.name));
      if (one.meshes != other.meshes)
        fault(rank, "bundle",
              format("{}: its meshes are not those of rank {}", other.name, one.rank.index()));
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
    // Of programs that do not even hang together, a few say enough.
    if (!comparable_ && ++broken_ > most_strangers) return;
    add(rank, verify(bundle));
    for (const Program& program : bundle.programs) {
      Report report(program);
      comparable_ = comparable_ && check_structure(program, report);
      if (!report.empty()) proof.operands_fit = false;
      if (report.empty()) check_operands(program, report);
      proof.operands_fit = proof.operands_fit && report.empty();
    }
    if (!comparable_) return;
    PositionClass& added = job_.classes.emplace_back(PositionClass{bundle, {}});
    proofs_.push_back(std::move(proof));
    for (const Program& program : added.bundle.programs)
      added.skeletons.push_back(skeleton(program, job_.terms));
    note(bundle, job_.classes.size() - 1);
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
    if (comparable_) note(bundle, index);
  }

  void note(const Bundle& bundle, std::size_t index) {
    std::vector<Exchange>& exchanges = job_.exchanges.emplace_back();
    for (const Program& program : bundle.programs) {
      Claims claims(program);
      exchanges.push_back(exchange(claims, job_.terms, job_.communicators));
    }
    job_.class_of.push_back(index);
  }

  std::size_t world_;
  const std::function<const Bundle&(Rank)>& bundle_of_;
  std::vector<Fault> faults_;
  CheckedJob job_;
  std::vector<Proof> proofs_;  // of each class
  std::size_t broken_ = 0, strangers_ = 0;
  bool comparable_ =
      true;  // whether ranks can be held against each other; if not, a fault says why
};

}  // namespace

std::vector<Fault> verify_job(std::int64_t world,
                              const std::function<const Bundle&(Rank)>& bundle_of) {
  return JobCheck(world, bundle_of).run();
}

}  // namespace fourfold::verify
