#include "search/divide_ranks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace fourfold::search {
namespace {

/// The first stages, which have so many of the first layers and of the ranks: a stage more at a
/// time.
class Divider {
 public:
  Divider(const DivisionSpec& spec, std::size_t count)
      : spec_(spec), count_(count), layers_(spec.work_before.size() - 1) {
    grain_ = spec.ranks;
    for (const std::int64_t choice : spec.choices) grain_ = std::gcd(grain_, choice);
    grains_ = static_cast<std::size_t>(spec.ranks / grain_);
  }

  std::vector<Division> run() {
    Table table(places());
    table[place(0, 0)].push_back({});
    for (std::size_t stage = 0; stage < spec_.stages; ++stage) table = with_stage(stage, table);
    return std::move(table[place(layers_, grains_)]);
  }

 private:
  /// By layers and ranks that are used up, the best divisions.
  using Table = std::vector<std::vector<Division>>;

  std::size_t places() const { return (layers_ + 1) * (grains_ + 1); }
  std::size_t place(std::size_t layers, std::size_t grains) const {
    return layers * (grains_ + 1) + grains;
  }

  Table with_stage(std::size_t stage, const Table& before) const {
    Table after(places());
    const std::size_t left = spec_.stages - stage - 1;  // stages after it, each with a layer
    for (std::size_t begin = stage; begin < layers_; ++begin)
      for (std::size_t grains = 0; grains < grains_; ++grains) {
        const std::vector<Division>& divisions = before[place(begin, grains)];
        if (divisions.empty()) continue;
        for (std::size_t end = begin + 1; end + left <= layers_; ++end) {
          if (!spec_.layers.empty() &&
              spec_.layers[stage] != static_cast<std::int64_t>(end - begin))
            continue;
          for (const std::int64_t ranks : spec_.choices) {
            const std::size_t used = grains + static_cast<std::size_t>(ranks / grain_);
            if (used > grains_) break;
            const double work =
                (spec_.work_before[end] - spec_.work_before[begin]) / static_cast<double>(ranks);
            for (const Division& division : divisions)
              add(division, static_cast<std::int64_t>(end - begin), ranks, work,
                  after[place(end, used)]);
          }
        }
      }
    return after;
  }

  /// Keeps the best of a place, sorted.
  void add(const Division& division, std::int64_t layers, std::int64_t ranks, double work,
           std::vector<Division>& best) const {
    Division more{{}, {}, std::max(division.most_work, work), division.all_work + work};
    const double needed = more.step_work(spec_.micros);
    const auto slower = std::ranges::find_if(
        best, [&](const Division& other) { return needed < other.step_work(spec_.micros); });
    if (slower == best.end() && best.size() == count_) return;
    more.layers = division.layers;
    more.layers.push_back(layers);
    more.ranks = division.ranks;
    more.ranks.push_back(ranks);
    best.insert(slower, std::move(more));
    if (best.size() > count_) best.pop_back();
  }

  const DivisionSpec& spec_;
  std::size_t count_, layers_, grains_ = 0;
  std::int64_t grain_ = 1;
};

}  // namespace

std::vector<Division> best_divisions(const DivisionSpec& spec, std::size_t count) {
  require(!spec.work_before.empty() && spec.stages > 0 && spec.ranks > 0 && count > 0 &&
              (spec.layers.empty() || spec.layers.size() == spec.stages),
          "stages have layers and ranks");
  return Divider(spec, count).run();
}

}  // namespace fourfold::search
