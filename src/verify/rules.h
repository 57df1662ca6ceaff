// The families of rules behind verify.h, each in its own file, and what they share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/claims.h"
#include "verify/language.h"
#include "verify/verify.h"

namespace fourfold::verify {

/// Collects the faults of one program.
class Report {
 public:
  explicit Report(const Program& program) : program_(program) {}

  void fault(std::string_view rule, std::string_view message);
  void fault(std::string_view rule, std::size_t instruction, std::string_view message);
  bool empty() const { return faults_.empty(); }
  std::size_t size() const { return faults_.size(); }
  std::vector<Fault> take() { return std::move(faults_); }

 private:
  const Program& program_;
  std::vector<Fault> faults_;
};

// --- the families. Those after check_structure require that it found no fault.

/// bounds, names, tasks, groups (of meshes), and the number of operands. False where the other
/// families cannot run.
bool check_structure(const Program& program, Report& report);
/// groups.
void check_groups(const Program& program, Report& report);
/// persistent-overlap.
void check_persistent_overlap(const Program& program, Report& report);
/// implementation, operands.
void check_operands(const Program& program, Report& report);
/// alias, read-only.
void check_writes(const Program& program, Report& report);
/// events, deadlock. False where the program has no order in which to judge accesses.
bool check_order(const Program& program, Report& report);
/// race, defined, lost. Requires check_order.
void check_memory(const Program& program, Report& report);
/// layout: who may touch a blocked buffer.
void check_layout(const Program& program, Report& report);
/// state, layout. Requires check_operands.
void check_state(Claims& claims, Report& report);
/// update-once.
void check_updates(Claims& claims, Report& report);
/// sum.
void check_sums(const Program& program, Report& report);
/// rounded.
void check_rounded(const Program& program, Report& report);
/// feeds.
void check_feeds(Claims& claims, Report& report);
/// part: attributes that say which part of a tensor this rank computes. Requires check_operands.
void check_attributes(Claims& claims, Report& report);
/// part: slices that are this rank's own block, for a rank of which check_state has proved only a
/// sibling.
void check_own_blocks(Claims& claims, Report& report);
/// bounds: peers and the slices of messages, for such a rank. False where they cannot be used.
bool check_peers(const Program& program, Report& report);
/// groups: the members alone; what remains of check_groups for such a rank.
void check_members(const Program& program, Report& report);

/// The faults of a bundle whose programs have been verified one by one: those of the programs, else
/// those between them.
std::vector<Fault> verify_together(const Bundle& bundle,
                                   std::vector<std::vector<Fault>> of_programs);

// --- shared questions

/// Half-open range of addresses; both regions share one line, transient after persistent.
struct AddressRange {
  std::int64_t begin = 0, end = 0;
  bool overlaps(const AddressRange& other) const { return begin < other.end && other.begin < end; }
};
std::int64_t address(const Program& program, BufferId buffer);

/// Calls `visit` with each contiguous run of a slice, in all copies of the buffer.
template <class Visit>
void for_each_run(const Program& program, const Slice& slice, Visit&& visit) {
  const Buffer& buffer = program.buffer(slice.buffer);
  const bool dense = slice.rows == 1 || slice.pitch_bytes == slice.row_bytes;
  for (std::int64_t copy = 0; copy < (buffer.two_by_parity ? 2 : 1); ++copy) {
    const std::int64_t start =
        address(program, slice.buffer) + copy * buffer.size_bytes + slice.offset_bytes;
    if (dense) {
      visit(AddressRange{start, start + slice.bytes()});
      continue;
    }
    for (std::int64_t row = 0; row < slice.rows; ++row)
      visit(AddressRange{start + row * slice.pitch_bytes,
                         start + row * slice.pitch_bytes + slice.row_bytes});
  }
}
/// True if two slices share a byte. Cost: logarithmic, or the rows of `a` where both are strided.
bool overlap(const Program& program, const Slice& a, const Slice& b);

/// What a slice holds: the dtype of its buffer, or of the block's field it covers exactly; nothing
/// where it covers part of a block that is no field.
std::optional<DType> slice_dtype(const Program& program, const Slice& slice);

/// "train: forward(0): instruction 17 (contract h1, w -> p1)".
std::string place_text(const Program& program, std::size_t instruction);

/// Coordinates of the program's rank on a mesh; nothing where the mesh does not have it.
std::optional<std::vector<std::int64_t>> own_coordinates(const Program& program, MeshId mesh);

}  // namespace fourfold::verify
