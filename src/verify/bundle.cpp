// bundle: whether the programs of a bundle fit together.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/parallel.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

bool is_initialised(BufferRole role) {
  return is_learned(role) || role == BufferRole::rounded || role == BufferRole::counter ||
         role == BufferRole::cache;
}

class BundleCheck {
 public:
  explicit BundleCheck(const Bundle& bundle) : bundle_(bundle) {}

  std::vector<Fault> run() {
    check_programs();
    for (const Program& program : bundle_.programs)
      for (const Buffer& buffer : program.buffers)
        if (buffer.region == Region::persistent) check_same(program, buffer);
    check_overlap();
    check_init();
    check_copies();
    return std::move(faults_);
  }

 private:
  struct Known {
    const Buffer* buffer = nullptr;
    const Program* program = nullptr;
  };

  void fault(std::string_view rule, std::string message) {
    faults_.push_back({std::string(rule), std::nullopt, std::move(message), std::nullopt});
  }

  void check_programs() {
    std::set<op::ProgramKind> kinds;
    for (const Program& program : bundle_.programs) {
      const Program& first = bundle_.programs.front();
      if (!kinds.insert(program.kind).second)
        fault("bundle", format("{}: two programs have this name", to_string(program.kind)));
      if (program.rank != first.rank || program.world != first.world ||
          program.meshes != first.meshes)
        fault("bundle", format("{}: its rank or meshes differ from those of {}",
                               to_string(program.kind), to_string(first.kind)));
      if (program.persistent_bytes > bundle_.persistent_bytes ||
          program.transient_bytes > bundle_.transient_bytes)
        fault("bundle",
              format("{}: it needs {} + {} bytes, the bundle has {} + {}", to_string(program.kind),
                     program.persistent_bytes, program.transient_bytes, bundle_.persistent_bytes,
                     bundle_.transient_bytes));
    }
  }

  void check_same(const Program& program, const Buffer& buffer) {
    const auto [place, inserted] = known_.try_emplace(buffer.name, Known{&buffer, &program});
    if (!inserted && !(*place->second.buffer == buffer))
      fault("bundle",
            format("{}: persistent buffer {} is not what it is in {}", to_string(program.kind),
                   buffer.name, to_string(place->second.program->kind)));
  }

  void check_overlap() {
    std::vector<Known> buffers;
    for (const auto& [name, known] : known_) buffers.push_back(known);
    std::stable_sort(buffers.begin(), buffers.end(), [](const Known& a, const Known& b) {
      return a.buffer->offset_bytes < b.buffer->offset_bytes;
    });
    std::int64_t end = 0;
    Known furthest;
    for (const Known& known : buffers) {
      // Two of one program are that program's fault.
      if (furthest.buffer != nullptr && known.buffer->offset_bytes < end &&
          known.program != furthest.program)
        fault("persistent-overlap",
              format("{}: {} shares persistent bytes with {} of {}", to_string(known.program->kind),
                     known.buffer->name, furthest.buffer->name, to_string(furthest.program->kind)));
      if (known.buffer->offset_bytes + known.buffer->space_bytes() > end) {
        end = known.buffer->offset_bytes + known.buffer->space_bytes();
        furthest = known;
      }
    }
  }

  void check_init() {
    const Program* init = bundle_.find(op::ProgramKind::init);
    if (init == nullptr) return;
    for (const auto& [name, known] : known_)
      if (is_initialised(known.buffer->role) && !init->find_buffer(name))
        fault("bundle", format("{}: nothing initialises {} {}", to_string(known.program->kind),
                               to_string(known.buffer->role), name));
  }

  /// A program that has a weight has its rounded copy too, so that rule `rounded` holds of it.
  void check_copies() {
    for (const auto& [name, known] : known_)
      if (known.buffer->role == BufferRole::rounded)
        for (const Program& program : bundle_.programs)
          if (program.find_buffer(rounded_name(name)) && !program.find_buffer(name))
            fault("bundle", format("{}: it has {} without its rounded copy",
                                   to_string(program.kind), rounded_name(name)));
  }

  const Bundle& bundle_;
  std::map<std::string_view, Known> known_;
  std::vector<Fault> faults_;
};

}  // namespace

std::vector<Fault> verify_together(const Bundle& bundle,
                                   std::vector<std::vector<Fault>> of_programs) {
  std::vector<Fault> faults;
  for (std::vector<Fault>& list : of_programs)
    for (Fault& fault : list) faults.push_back(std::move(fault));
  // Addresses are compared only where each program's own are sound.
  if (!faults.empty()) return faults;
  return BundleCheck(bundle).run();
}

std::vector<Fault> verify(const Bundle& bundle) {
  std::vector<std::vector<Fault>> of_programs(bundle.programs.size());
  for_each_on_all_cores(of_programs.size(),
                        [&](std::size_t i) { of_programs[i] = verify(bundle.programs[i]); });
  return verify_together(bundle, std::move(of_programs));
}

}  // namespace fourfold::verify
