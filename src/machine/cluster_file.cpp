#include "machine/cluster_file.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/format.h"
#include "base/text.h"
#include "base/yaml.h"
#include "machine/map_reader.h"
#include "machine/priced_by.h"

namespace fourfold::machine {
namespace {

/// The most devices: far above any cluster, far below what 64 bits hold.
constexpr std::int64_t most_devices = 100'000'000;

/// The node of a machine whose devices are joined by nothing but its network.
constexpr const char* lone_device = "device";

/// Reads one text; problems are collected.
class ClusterReader {
 public:
  ClusterReader(const std::string& text, const std::string& file)
      : document_(parse_yaml(text, file, problems_)) {}

  Cluster read(const std::string& name) {
    Cluster cluster;
    cluster.name = name;
    if (problems_.empty()) {
      MapReader reader = map(document_.root, "the file");
      cluster.title = reader.text("title");
      const std::int64_t devices = reader.whole("devices", 1);
      if (const YamlNode* node = reader.find("device")) cluster.device = device(*node);
      if (reader.has("levels"))
        for (const YamlNode& node : reader.list("levels")) cluster.levels.push_back(level(node));
      if (reader.has("node")) read_node(reader, cluster);
      if (reader.has("ranks_per_device"))
        cluster.ranks_per_device = reader.whole("ranks_per_device", 1);
      if (reader.has("element"))
        cluster.least_element_bytes = reader.positive("element", Quantity::bytes);
      if (reader.has("file_system"))
        cluster.file_system_bytes_per_s = reader.positive("file_system", Quantity::bytes_per_s);
      check_devices(reader, cluster, devices);
      if (reader.has("groups"))
        for (const YamlNode& node : reader.list("groups"))
          cluster.groups.push_back(group(node, cluster));
      reader.refuse_others();
    }
    if (!problems_.empty()) throw_together(problems_, ExitCode::bad_config);
    return cluster;
  }

 private:
  MapReader map(const YamlNode& node, const std::string& what) {
    return {document_, node, problems_,
            "configs/machines/README.md says what a file of a cluster has", what};
  }
  void refuse(const YamlNode& node, std::string message, std::string hint) {
    problems_.push_back(document_.problem_at(node, std::move(message), std::move(hint)));
  }

  Device device(const YamlNode& node) {
    MapReader reader = map(node, "device");
    Device device;
    device.name = reader.text("name");
    device.memory_bytes = reader.positive("memory", Quantity::bytes);
    device.memory_bytes_per_s = reader.positive("memory_bandwidth", Quantity::bytes_per_s);
    if (reader.has("memory_share")) device.memory_share = reader.number("memory_share", 0.001, 1);
    if (reader.has("instruction"))
      device.instruction_s = reader.quantity("instruction", Quantity::seconds);
    if (reader.has("handoff")) device.handoff_s = reader.quantity("handoff", Quantity::seconds);
    if (reader.has("slowdown_beside_communication"))
      device.slowdown_beside_communication =
          reader.number("slowdown_beside_communication", 1, std::numeric_limits<double>::max());
    if (const YamlNode* rates = reader.find("rates")) device.rates = read_rates(*rates);
    if (reader.has("kernels"))
      for (const YamlNode& kernel : reader.list("kernels"))
        device.kernels.push_back(read_kernel(kernel, device));
    if (reader.has("unmeasured"))
      for (const YamlNode& name : reader.list("unmeasured")) read_unmeasured(name, device);
    reader.refuse_others();
    return device;
  }

  void read_unmeasured(const YamlNode& node, Device& device) {
    const std::vector<std::string>& known = operations_beside_products();
    if (std::ranges::find(known, node.text) == known.end())
      refuse(node,
             format("unmeasured has {}, expected one of {}", node.described(), join(known, ", ")),
             "products of matrices have their rates");
    if (std::ranges::any_of(device.kernels,
                            [&](const auto& kernel) { return kernel.op == node.text; }))
      refuse(node, format("'{}' stands among the kernels that were measured", node.text),
             "leave it out here");
    device.unmeasured.push_back(node.text);
  }

  MeasuredKernel read_kernel(const YamlNode& node, const Device& device) {
    MapReader reader = map(node, "this kernel");
    MeasuredKernel kernel;
    kernel.op = reader.text("op");
    kernel.dtype = parse_dtype(reader.one_of("type", {"bf16", "f32", "f64"})).value_or(DType::f32);
    for (const YamlNode& time : reader.list("times"))
      kernel.times.push_back(kernel_time(time, kernel));
    reader.refuse_others();
    if (kernel.times.empty() && problems_.empty())
      refuse(node, "no time of this kernel is given", "give at least one, or leave the kernel out");
    for (const MeasuredKernel& other : device.kernels)
      if (other.op == kernel.op && other.dtype == kernel.dtype)
        refuse(node, "the same op and type stand here twice", "put their times into one list");
    return kernel;
  }

  KernelTime kernel_time(const YamlNode& node, const MeasuredKernel& kernel) {
    MapReader reader = map(node, "this time");
    KernelTime time;
    time.bytes = reader.positive("bytes", Quantity::bytes);
    if (reader.has("flops")) time.flops = reader.positive("flops", Quantity::flops);
    time.seconds = reader.positive("time", Quantity::seconds);
    reader.refuse_others();
    if (!kernel.times.empty() && kernel.times.back().bytes >= time.bytes)
      refuse(node, "its bytes are not above those of the time before", "sort the times by bytes");
    return time;
  }

  std::vector<ComputeRate> read_rates(const YamlNode& node) {
    MapReader reader = map(node, "rates");
    std::vector<ComputeRate> rates;
    for (const DType dtype : {DType::bf16, DType::f32, DType::f64})
      if (const std::string name(to_string(dtype)); reader.has(name))
        rates.push_back(rate(*reader.find(name), dtype));
    if (rates.empty() && node.kind == YamlNode::Kind::map)
      refuse(node, "no rate is given", "give at least one of bf16, f32, f64");
    for (const YamlMember& member : node.members)
      if (!rates_type(member.key.text))
        refuse(member.key, format("unknown '{}'; known here: bf16, f32, f64", member.key.text), "");
    return rates;
  }
  static bool rates_type(const std::string& name) {
    return name == "bf16" || name == "f32" || name == "f64";
  }

  ComputeRate rate(const YamlNode& node, DType dtype) {
    MapReader reader = map(node, std::string(to_string(dtype)));
    ComputeRate rate;
    rate.dtype = dtype;
    rate.flops_per_s = reader.positive("peak", Quantity::flops_per_s);
    if (reader.has("efficiency"))
      for (const YamlNode& point : reader.list("efficiency"))
        rate.efficiency.push_back(efficiency_point(point, rate));
    reader.refuse_others();
    return rate;
  }

  EfficiencyPoint efficiency_point(const YamlNode& node, const ComputeRate& rate) {
    MapReader reader = map(node, "this point");
    const EfficiencyPoint point{reader.positive("flops", Quantity::flops),
                                reader.number("share", 1e-9, 1)};
    reader.refuse_others();
    if (!rate.efficiency.empty() && rate.efficiency.back().flops >= point.flops)
      refuse(node, "its flops are not above those of the point before", "sort the points by flops");
    return point;
  }

  Level level(const YamlNode& node) {
    MapReader reader = map(node, "this level");
    Level level;
    level.name = reader.text("name");
    level.units = reader.whole("units", 1);
    level.latency_s = reader.quantity("latency", Quantity::seconds);
    level.link_bytes_per_s = reader.positive("link", Quantity::bytes_per_s);
    level.port_bytes_per_s = reader.positive("port", Quantity::bytes_per_s);
    if (reader.has("group"))
      level.group_bytes_per_s = reader.positive("group", Quantity::bytes_per_s);
    if (reader.has("share")) level.share = reader.number("share", 0.001, 1);
    if (reader.has("pairs")) read_pairs(*reader.find("pairs"), level);
    reader.refuse_others();
    return level;
  }

  void read_pairs(const YamlNode& node, Level& level) {
    const auto count = static_cast<std::size_t>(level.units);
    const auto is_row = [&](const YamlNode& row) {
      return row.kind == YamlNode::Kind::list && row.items.size() == count;
    };
    if (node.items.size() != count || !std::all_of(node.items.begin(), node.items.end(), is_row)) {
      refuse(node, format("pairs is no list of {} lists of {} rates", count, count),
             format("give a row for each of the {} units", count));
      return;
    }
    level.pairs.assign(count, std::vector<double>(count, 0));
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j) read_pair(node.items[i].items[j], level, i, j);
  }

  void read_pair(const YamlNode& node, Level& level, std::size_t i, std::size_t j) {
    const auto rate = parse_quantity(node.text, Quantity::bytes_per_s);
    if (!rate)
      refuse(node,
             format("pairs has {}, expected {}", node.described(),
                    quantity_in_words(Quantity::bytes_per_s)),
             "a pair without a link has 0 B/s");
    level.pairs[i][j] = rate.value_or(0);
    if (i == j && level.pairs[i][j] != 0)
      refuse(node, "pairs has a rate from a unit to itself", "write 0 B/s");
    if (j < i && level.pairs[i][j] != level.pairs[j][i])
      refuse(node, format("pairs has another rate from unit {} to {} than back", i, j),
             "links have the same rate in both directions");
  }

  void check_devices(MapReader& reader, const Cluster& cluster, std::int64_t devices) {
    std::int64_t count = 1;
    std::string product;
    for (const Level& level : cluster.levels) {
      product += format("{}{}", product.empty() ? "" : " x ", level.units);
      if (__builtin_mul_overflow(count, level.units, &count) || count > most_devices)
        return reader.wrong("levels", format("at most {} devices", most_devices));
    }
    if (problems_.empty() && count != devices)
      reader.wrong("devices", cluster.levels.empty()
                                  ? "1: there are no levels"
                                  : format("{}: the levels join {}", count, product));
  }

  MeasuredTime measured_time(const YamlNode& node, const MeasuredGroup& group) {
    MapReader reader = map(node, "this time");
    const MeasuredTime time{reader.positive("bytes", Quantity::bytes),
                            reader.positive("time", Quantity::seconds)};
    reader.refuse_others();
    if (!group.times.empty() && group.times.back().bytes >= time.bytes)
      refuse(node, "its bytes are not above those of the time before", "sort the times by bytes");
    return time;
  }

  /// The level that joins the devices of a node, or "device" where each is one.
  static void read_node(MapReader& reader, Cluster& cluster) {
    std::vector<std::string> names = {lone_device};
    for (const Level& level : cluster.levels) names.push_back(level.name);
    const auto chosen = std::ranges::find(names, reader.one_of("node", names));
    if (chosen != names.end())
      cluster.levels_of_node = static_cast<std::size_t>(chosen - names.begin());
  }

  MeasuredGroup group(const YamlNode& node, const Cluster& cluster) {
    MapReader reader = map(node, "this group");
    MeasuredGroup group;
    group.kind = find_collective(reader.one_of("kind", measured_kinds()));  // none: a message
    group.ranks = reader.whole("ranks", 2);
    group.stride = reader.whole("stride", 1);
    group.latency_s = reader.quantity("latency", Quantity::seconds);
    group.bytes_per_s = reader.positive("rate", Quantity::bytes_per_s);
    if (reader.has("times"))
      for (const YamlNode& time : reader.list("times"))
        group.times.push_back(measured_time(time, group));
    reader.refuse_others();
    if (!problems_.empty()) return group;
    const std::int64_t ranks = cluster.ranks();
    if (group.ranks > ranks / group.stride || ranks % (group.ranks * group.stride) != 0)
      refuse(node,
             format("{} ranks with a stride of {} do not divide the {} ranks of this cluster",
                    group.ranks, group.stride, ranks),
             "ranks x stride must divide devices x ranks_per_device");
    if (cluster.measured(group.kind, group.ranks, group.stride) != nullptr)
      refuse(node, "the same kind, ranks and stride stand here twice", "leave one of them out");
    return group;
  }

  std::vector<Diagnostic> problems_;
  YamlDocument document_;
};

std::string in_words(const ComputeRate& rate) {
  std::string text = format("    {}:\n      peak: {}\n", to_string(rate.dtype),
                            quantity_text(rate.flops_per_s, Quantity::flops_per_s));
  if (!rate.efficiency.empty()) text += "      efficiency:\n";
  for (const EfficiencyPoint& point : rate.efficiency)
    text += format("        - {{flops: {}, share: {}}}\n",
                   quantity_text(point.flops, Quantity::flops), point.share);
  return text;
}

std::string in_words(const Level& level) {
  const auto rate = [](double bytes_per_s) {
    return quantity_text(bytes_per_s, Quantity::bytes_per_s);
  };
  std::string text = format(
      "  - name: {}\n    units: {}\n    latency: {}\n    link: {}\n    port: {}\n",
      yaml_quoted(level.name), level.units, quantity_text(level.latency_s, Quantity::seconds),
      rate(level.link_bytes_per_s), rate(level.port_bytes_per_s));
  if (level.group_bytes_per_s > 0) text += format("    group: {}\n", rate(level.group_bytes_per_s));
  if (level.share < 1) text += format("    share: {}\n", level.share);
  if (!level.pairs.empty()) text += "    pairs:\n";
  for (const std::vector<double>& row : level.pairs) {
    std::vector<std::string> rates;
    std::transform(row.begin(), row.end(), std::back_inserter(rates), rate);
    text += format("      - [{}]\n", join(rates, ", "));
  }
  return text;
}

std::string in_words(const MeasuredKernel& kernel) {
  std::string text = format("    - op: {}\n      type: {}\n      times:\n", yaml_quoted(kernel.op),
                            to_string(kernel.dtype));
  for (const KernelTime& time : kernel.times) {
    const std::string flops =
        time.flops > 0 ? format(", flops: {}", quantity_text(time.flops, Quantity::flops)) : "";
    text +=
        format("        - {{bytes: {}{}, time: {}}}\n", quantity_text(time.bytes, Quantity::bytes),
               flops, quantity_text(time.seconds, Quantity::seconds));
  }
  return text;
}

std::string in_words(const Device& device) {
  std::string text = format(
      "device:\n  name: {}\n  memory: {}\n  memory_bandwidth: {}\n  memory_share: {}\n"
      "  instruction: {}\n  handoff: {}\n  slowdown_beside_communication: {}\n  rates:\n",
      yaml_quoted(device.name), quantity_text(device.memory_bytes, Quantity::bytes),
      quantity_text(device.memory_bytes_per_s, Quantity::bytes_per_s), device.memory_share,
      quantity_text(device.instruction_s, Quantity::seconds),
      quantity_text(device.handoff_s, Quantity::seconds), device.slowdown_beside_communication);
  for (const ComputeRate& rate : device.rates) text += in_words(rate);
  if (!device.kernels.empty()) text += "  kernels:\n";
  for (const MeasuredKernel& kernel : device.kernels) text += in_words(kernel);
  if (!device.unmeasured.empty())
    text += format("  unmeasured: [{}]\n", join(device.unmeasured, ", "));
  return text;
}

}  // namespace

Cluster read_cluster(const std::string& text, const std::string& file, const std::string& name) {
  return ClusterReader(text, file).read(name);
}

std::string to_yaml(const Cluster& cluster, const std::string& comment) {
  std::string text;
  if (!comment.empty())
    for (const std::string& line : split(comment, '\n')) text += format("# {}\n", line);
  text += format("title: {}\ndevices: {}\n", yaml_quoted(cluster.title), cluster.devices());
  text += in_words(cluster.device);
  if (!cluster.levels.empty()) text += "levels:\n";
  for (const Level& level : cluster.levels) text += in_words(level);
  if (cluster.levels_of_node)
    text +=
        format("node: {}\n", *cluster.levels_of_node == 0
                                 ? std::string(lone_device)
                                 : yaml_quoted(cluster.levels[*cluster.levels_of_node - 1].name));
  text += format("ranks_per_device: {}\n", cluster.ranks_per_device);
  if (cluster.least_element_bytes > 0)
    text += format("element: {}\n", quantity_text(cluster.least_element_bytes, Quantity::bytes));
  if (cluster.file_system_bytes_per_s > 0)
    text += format("file_system: {}\n",
                   quantity_text(cluster.file_system_bytes_per_s, Quantity::bytes_per_s));
  if (!cluster.groups.empty()) text += "groups:\n";
  for (const MeasuredGroup& group : cluster.groups) {
    text += format("  - {{kind: {}, ranks: {}, stride: {}, latency: {}, rate: {}",
                   to_string(group.kind), group.ranks, group.stride,
                   quantity_text(group.latency_s, Quantity::seconds),
                   quantity_text(group.bytes_per_s, Quantity::bytes_per_s));
    std::string before = ", times: [";
    for (const MeasuredTime& time : group.times) {
      text +=
          format("{}{{bytes: {}, time: {}}}", before, quantity_text(time.bytes, Quantity::bytes),
                 quantity_text(time.seconds, Quantity::seconds));
      before = ", ";
    }
    text += group.times.empty() ? "}\n" : "]}\n";
  }
  return text;
}

}  // namespace fourfold::machine
