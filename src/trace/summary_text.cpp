#include <algorithm>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/units.h"
#include "trace/summary.h"

namespace fourfold::trace {
namespace {

/// With enough decimals for a step of microseconds, and none too many for one of seconds.
class Milliseconds {
 public:
  explicit Milliseconds(double step_s) : decimals_(step_s < 10e-3 ? 3 : step_s < 1 ? 2 : 1) {}
  std::string operator()(double seconds) const {
    return format("{:.{}f}", 1e3 * seconds, decimals_);
  }

 private:
  int decimals_;
};

std::string percent(double part, double whole) {
  return whole > 0 ? format("{:.1f} %", 100 * part / whole) : "-";
}

/// Empty where there is nothing to divide.
std::string rate(double value) {
  if (value == 0) return "";
  return value < 99.95 ? format("{:.1f}", value) : format("{:.0f}", value);
}

Traffic sum_of(const std::vector<Traffic>& traffic) {
  Traffic sum{"all", {}};
  for (const Traffic& one : traffic) {
    sum.amount.calls += one.amount.calls;
    sum.amount.bytes += one.amount.bytes;
    sum.amount.seconds += one.amount.seconds;
    sum.hidden_s += one.hidden_s;
    sum.exposed_s += one.exposed_s;
  }
  return sum;
}

/// Columns as wide as their widest cell; the first `num_left` stand left, the others right.
class Table {
 public:
  explicit Table(std::size_t num_left) : num_left_(num_left) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()), 0);
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) line += "  ";
        line += i < num_left_ ? format("{:<{}}", row[i], widths[i])
                              : format("{:>{}}", row[i], widths[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
    return text;
  }

 private:
  std::size_t num_left_;
  std::vector<std::vector<std::string>> rows_;
};

std::string shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::string parts_table(const Summary& summary) {
  const Milliseconds milliseconds(summary.step_s);
  const bool many = summary.ranks.size() > 1;
  Table table(2);
  std::vector<std::string> head = {"stream", "work", "ms", "of step", "calls", "GFLOP/s", "GB/s"};
  if (many) head.insert(head.end(), {"least (rank)", "most (rank)"});
  table.add(head);
  std::string stream;
  for (const PartOverRanks& part : summary.parts) {
    std::vector<std::string> row = {part.stream == stream ? "" : part.stream,
                                    part.what,
                                    milliseconds(part.mean.seconds),
                                    percent(part.mean.seconds, summary.step_s),
                                    part.mean.calls == 0 ? "" : format("{:.6g}", part.mean.calls),
                                    rate(part.mean.gflop_per_s()),
                                    rate(part.mean.gb_per_s())};
    if (many) {
      row.push_back(format("{} ({})", milliseconds(part.least_s), part.least_rank));
      row.push_back(format("{} ({})", milliseconds(part.most_s), part.most_rank));
    }
    table.add(std::move(row));
    stream = part.stream;
  }
  return table.text();
}

/// Means over ranks, and their sum where there are several classes.
std::string traffic_table(const Summary& summary) {
  const Milliseconds milliseconds(summary.step_s);
  Table table(1);
  table.add({"traffic", "calls", "bytes", "ms", "hidden", "exposed"});
  const auto add = [&](const Traffic& traffic) {
    table.add({traffic.name, format("{:.6g}", traffic.amount.calls),
               format_bytes(static_cast<std::int64_t>(traffic.amount.bytes)),
               milliseconds(traffic.amount.seconds), milliseconds(traffic.hidden_s),
               milliseconds(traffic.exposed_s)});
  };
  for (const Traffic& traffic : summary.traffic) add(traffic);
  if (summary.traffic.size() > 1) add(sum_of(summary.traffic));
  return table.text();
}

std::string ranks_table(const Summary& summary) {
  const Milliseconds milliseconds(summary.step_s);
  constexpr std::size_t most = 32;
  Table table(0);
  table.add(
      {"rank", "step ms", "math works", "waits", "idle", "exchanges", "beside math", "early"});
  for (std::size_t i = 0; i < std::min(most, summary.ranks.size()); ++i) {
    const RankSummary& rank = summary.ranks[i];
    table.add({format("{}", rank.rank), milliseconds(rank.step_s), milliseconds(rank.compute_s),
               milliseconds(rank.wait_s), milliseconds(rank.idle_s),
               milliseconds(rank.communication_s), milliseconds(rank.overlapped_s),
               milliseconds(rank.early_s)});
  }
  std::string text = table.text();
  if (summary.ranks.size() > most)
    text += format("and {} more ranks: see --json\n", summary.ranks.size() - most);
  return text;
}

/// What the tables say of ranks together.
std::string verdict(const Summary& summary) {
  const Milliseconds milliseconds(summary.step_s);
  const double exchange_s = summary.mean(&RankSummary::communication_s),
               beside_s = summary.mean(&RankSummary::overlapped_s),
               early_s = summary.mean(&RankSummary::early_s),
               compute_s = summary.mean(&RankSummary::compute_s);
  const RankSummary& busiest =
      *std::ranges::max_element(summary.ranks, {}, &RankSummary::compute_s);
  return format(
      "communication: {} ms a step, {} of it beside math; {} ms were spent early, waiting for the\n"
      "last rank to arrive\n"
      "imbalance: rank {} computes longest, {:.3f} times the mean\n",
      milliseconds(exchange_s), percent(beside_s, exchange_s), milliseconds(early_s), busiest.rank,
      compute_s > 0 ? busiest.compute_s / compute_s : 1.0);
}

std::string operations_table(const std::vector<Operation>& operations, const std::string& title,
                             double step_s) {
  const Milliseconds milliseconds(step_s);
  // Keeps the table within 100 columns.
  constexpr std::size_t widest_text = 44;
  Table table(2);
  table.add({title, "by", "ms", "of step", "calls", "GFLOP/s", "GB/s"});
  for (const Operation& operation : operations)
    table.add({shortened(operation.what, widest_text), shortened(operation.by, 12),
               milliseconds(operation.amount.seconds), percent(operation.amount.seconds, step_s),
               format("{:.6g}", operation.amount.calls), rate(operation.amount.gflop_per_s()),
               rate(operation.amount.gb_per_s())});
  return table.text();
}

Json to_json(const Amount& amount) {
  return Json::object({{"seconds", amount.seconds},
                       {"calls", amount.calls},
                       {"flops", amount.flops},
                       {"bytes", amount.bytes}});
}

Json to_json(const std::vector<Traffic>& traffic) {
  Json list = Json::array();
  for (const Traffic& one : traffic)
    list.push(Json::object({{"traffic", one.name},
                            {"calls", one.amount.calls},
                            {"bytes", one.amount.bytes},
                            {"seconds", one.amount.seconds},
                            {"hidden_s", one.hidden_s},
                            {"exposed_s", one.exposed_s}}));
  return list;
}

Json to_json(const RankSummary& rank) {
  Json parts = Json::array();
  for (const Part& part : rank.parts)
    parts.push(Json::object(
        {{"stream", part.stream}, {"work", part.what}, {"amount", to_json(part.amount)}}));
  return Json::object({{"rank", rank.rank},
                       {"place", rank.place},
                       {"host", rank.host},
                       {"step_s", rank.step_s},
                       {"compute_s", rank.compute_s},
                       {"wait_s", rank.wait_s},
                       {"idle_s", rank.idle_s},
                       {"communication_s", rank.communication_s},
                       {"overlapped_s", rank.overlapped_s},
                       {"gradients_s", rank.gradients_s},
                       {"early_s", rank.early_s},
                       {"traffic", to_json(rank.traffic)},
                       {"parts", std::move(parts)}});
}

Json to_json(const std::vector<Operation>& operations) {
  Json list = Json::array();
  for (const Operation& operation : operations)
    list.push(Json::object({{"what", operation.what},
                            {"by", operation.by},
                            {"stream", operation.stream},
                            {"amount", to_json(operation.amount)}}));
  return list;
}

}  // namespace

std::string to_text(const Summary& summary) {
  const bool many = summary.ranks.size() > 1;
  std::string text =
      format("{}: {} step{} ({} to {}) on {} rank{}; a step takes {} ({} to {})\n\n",
             op::to_string(summary.program), summary.num_steps, summary.num_steps == 1 ? "" : "s",
             summary.first_step, summary.last_step, summary.ranks.size(), many ? "s" : "",
             format_duration(summary.step_s), format_duration(summary.shortest_step_s),
             format_duration(summary.longest_step_s));
  text += parts_table(summary);
  if (!summary.traffic.empty()) text += "\n" + traffic_table(summary);
  if (many) text += "\n" + ranks_table(summary) + "\n" + verdict(summary);
  text += "\n" + operations_table(summary.operations, "operation", summary.step_s);
  text += "\n" + operations_table(summary.longest, "longest instructions", summary.step_s);
  return text;
}

Json to_json(const Summary& summary) {
  Json ranks = Json::array();
  for (const RankSummary& rank : summary.ranks) ranks.push(to_json(rank));
  return Json::object({{"program", std::string(op::to_string(summary.program))},
                       {"first_step", summary.first_step},
                       {"last_step", summary.last_step},
                       {"num_steps", summary.num_steps},
                       {"step_s", summary.step_s},
                       {"shortest_step_s", summary.shortest_step_s},
                       {"longest_step_s", summary.longest_step_s},
                       {"traffic", to_json(summary.traffic)},
                       {"ranks", std::move(ranks)},
                       {"operations", to_json(summary.operations)},
                       {"longest_instructions", to_json(summary.longest)}});
}

}  // namespace fourfold::trace
