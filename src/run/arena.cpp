#include "run/arena.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"

namespace fourfold::run {
namespace {

/// x86-64's large page. Smaller arenas gain nothing from it.
constexpr std::int64_t huge_page_bytes = std::int64_t{2} << 20;

std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + Arena::page_bytes - 1) / Arena::page_bytes * Arena::page_bytes;
}

bool painted(const std::byte* page) {
  std::uint64_t word = 0;
  for (std::int64_t at = 0; at < Arena::page_bytes; at += std::int64_t{sizeof word}) {
    std::memcpy(&word, page + at, sizeof word);
    if (word != Arena::paint_word) return false;
  }
  return true;
}

}  // namespace

Arena::Arena(std::int64_t persistent_bytes, std::int64_t transient_bytes)
    : persistent_bytes_(whole_pages(persistent_bytes)),
      transient_bytes_(whole_pages(transient_bytes)) {
  const std::int64_t total = persistent_bytes_ + transient_bytes_;
  if (total == 0) return;
  void* memory = mmap(nullptr, static_cast<std::size_t>(total), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw UserError(
        ExitCode::out_of_memory,
        format("the system does not give {} of memory for the run ({} persistent, {} transient); "
               "take a smaller train.micro_batch_size or checkpoint activations",
               format_bytes(total), format_bytes(persistent_bytes), format_bytes(transient_bytes)));
  base_ = static_cast<std::byte*>(memory);
  // Advice only: where the kernel refuses, small pages serve as well.
  if (total >= huge_page_bytes) madvise(memory, static_cast<std::size_t>(total), MADV_HUGEPAGE);
}

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(persistent_bytes_, other.persistent_bytes_);
  std::swap(transient_bytes_, other.transient_bytes_);
  return *this;
}

Arena::~Arena() {
  if (base_ != nullptr)
    munmap(base_, static_cast<std::size_t>(persistent_bytes_ + transient_bytes_));
}

Regions Arena::regions() const {
  return {{base_, static_cast<std::size_t>(persistent_bytes_)},
          {base_ + persistent_bytes_, static_cast<std::size_t>(transient_bytes_)}};
}

void Arena::paint() {
  for (const auto which : {program::Region::persistent, program::Region::transient}) {
    const std::span<std::byte> all = region(which);
    for (std::size_t at = 0; at < all.size(); at += sizeof paint_word)
      std::memcpy(all.data() + at, &paint_word, sizeof paint_word);
  }
}

Arena::Pages Arena::pages(program::Region which) const {
  const std::span<std::byte> all = region(which);
  Pages count{static_cast<std::int64_t>(all.size()) / page_bytes, 0};
  for (std::int64_t page = 0; page < count.total; ++page)
    count.untouched += painted(all.data() + page * page_bytes) ? 1 : 0;
  return count;
}

}  // namespace fourfold::run
