// The files of clusters: those of configs/machines, faults, and what is written.
#include "machine/cluster_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "machine/known_clusters.h"
#include "support/pattern.h"

namespace fourfold::machine {
namespace {

const std::string small_file = R"(title: "Two hosts of four"
devices: 8
device:
  name: a device
  memory: 40 GiB
  memory_bandwidth: 1555 GB/s
  rates:
    bf16:
      peak: 312 TFLOP/s
      efficiency:
        - {flops: 1 GFLOP, share: 0.3}
        - {flops: 1 TFLOP, share: 0.8}
levels:
  - name: nvlink
    units: 4
    latency: 2 us
    link: 100 GB/s
    port: 3 x 100 GB/s
  - name: network
    units: 2
    latency: 4 us
    link: 200 Gbit/s
    port: 50 GB/s
    group: 40 GB/s
    pairs: [[0 B/s, 50 GB/s], [50 GB/s, 0 B/s]]
node: nvlink
groups:
  - {kind: all_reduce, ranks: 4, stride: 2, latency: 20 us, rate: 8 GB/s}
)";

Cluster parsed(const std::string& text) {
  return read_cluster(text, "m.yaml", "m");
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    return error.what();
  }
  return "nothing was thrown";
}

/// The problem of the small file where `from` is replaced.
void expect_fault(const std::string& from, const std::string& to, const std::string& expected) {
  std::string text = small_file;
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::string message = refusal_of([&] { parsed(text); });
  EXPECT_NE(message.find(expected), std::string::npos) << message << "\nhas no: " << expected;
}

TEST(ClusterFile, every_figure_is_read) {
  const Cluster cluster = parsed(small_file);
  EXPECT_EQ(cluster.name, "m");
  EXPECT_EQ(cluster.title, "Two hosts of four");
  EXPECT_EQ(cluster.device.memory_bytes, 40 * 0x1p30);
  EXPECT_EQ(cluster.device.memory_bytes_per_s, 1555e9);
  EXPECT_EQ(cluster.device.memory_share, 1);
  EXPECT_EQ(cluster.device.slowdown_beside_communication, 1);
  EXPECT_EQ(cluster.device.rates,
            (std::vector<ComputeRate>{{DType::bf16, 312e12, {{1e9, 0.3}, {1e12, 0.8}}}}));
  EXPECT_EQ(cluster.levels,
            (std::vector<Level>{{"nvlink", 4, 2e-6, 100e9, 300e9, 0, {}},
                                {"network", 2, 4e-6, 25e9, 50e9, 40e9, {{0, 50e9}, {50e9, 0}}}}));
  EXPECT_EQ(cluster.groups,
            (std::vector<MeasuredGroup>{{Collective::all_reduce, 4, 2, 20e-6, 8e9}}));
}

TEST(ClusterFile, what_is_written_reads_back_to_the_same_cluster) {
  Cluster cluster = parsed(small_file);
  EXPECT_EQ(parsed(to_yaml(cluster, "two\nlines")), cluster);
  cluster.device.memory_bytes = 1e9 / 3;
  cluster.device.memory_share = 1. / 3;
  cluster.device.slowdown_beside_communication = 4. / 3;
  cluster.device.instruction_s = 1e-6 / 7;
  cluster.device.rates.push_back({DType::f64, 1e12 / 3, {{1e5 / 3, 1. / 7}}});
  cluster.levels[0].latency_s = 1e-5 / 3;
  cluster.levels[1].share = 2. / 3;
  cluster.ranks_per_device = 3;
  cluster.least_element_bytes = 4;
  cluster.file_system_bytes_per_s = 2.5e12;
  cluster.groups.push_back({message_of_two, 2, 1, 1e-5 / 3, 1e10 / 3});
  cluster.groups.push_back({message_of_two, 2, 4, 1e-5, 1e10, {{1e3 / 3, 1e-6 / 3}, {1e6, 1e-4}}});
  EXPECT_EQ(parsed(to_yaml(cluster)), cluster);
}

TEST(ClusterFile, what_programs_reach_of_links_and_send_of_an_element_is_read) {
  EXPECT_EQ(parsed(small_file).levels[0].share, 1);
  EXPECT_EQ(parsed(small_file).least_element_bytes, 0);
  std::string text = small_file;
  const std::string latency = "    latency: 4 us\n", node = "node: nvlink\n";
  text.replace(text.find(latency), latency.size(), latency + "    share: 0.75\n");
  text.replace(text.find(node), node.size(), node + "element: 4 B\n");
  EXPECT_EQ(parsed(text).levels[1].share, 0.75);
  EXPECT_EQ(parsed(text).least_element_bytes, 4);
  expect_fault(latency, latency + "    share: 1.5\n", "share");
  expect_fault(latency, latency + "    share: 0\n", "share");
  expect_fault(node, node + "element: 0 B\n", "element");
}

TEST(ClusterFile, every_known_machine_reads_and_reads_back) {
  ASSERT_GE(known_clusters().size(), 20U);
  for (const KnownCluster& known : known_clusters()) {
    const Cluster cluster = load_cluster(known.name);
    EXPECT_EQ(cluster.name, known.name);
    EXPECT_LE(cluster.title.size(), 70U) << known.name;
    EXPECT_EQ(read_cluster(to_yaml(cluster), known.name, known.name), cluster) << known.name;
  }
}

TEST(ClusterFile, every_figure_of_a_known_machine_has_its_source_on_its_line) {
  // A figure is a key with a number, or a list of them; items of a list have their key's source.
  const test::Pattern figure(R"(^ *([a-z_]+): ([0-9].*)?$)"), source(R"(^.* # .{4,}$)");
  const std::vector<std::string> names = {
      "device:", "rates:", "levels:", "groups:", "bf16:", "f32:", "f64:"};
  for (const KnownCluster& known : known_clusters()) {
    std::size_t number = 0;
    for (const std::string& line : split(known.text, '\n')) {
      ++number;
      const bool is_name = std::find(names.begin(), names.end(), trim(line)) != names.end();
      if (is_name || !figure.matches(line + " ")) continue;
      EXPECT_TRUE(source.matches(line)) << known.name << ".yaml:" << number << ": " << line;
    }
  }
}

TEST(ClusterFile, operations_of_which_nothing_was_measured_are_named_once_and_are_no_others) {
  const std::string levels = "levels:\n";
  std::string text = small_file;
  text.replace(text.find(levels), levels.size(),
               "  unmeasured: [attention, convolution]\n" + levels);
  EXPECT_EQ(parsed(text).device.unmeasured, (std::vector<std::string>{"attention", "convolution"}));
  EXPECT_EQ(parsed(to_yaml(parsed(text))), parsed(text));
  expect_fault(levels, "  unmeasured: [contract]\n" + levels,
               "unmeasured has 'contract', expected one of attention, ");
  expect_fault(levels,
               "  kernels:\n    - {op: attention, type: f32, times: [{bytes: 1 MB, time: 1 us}]}\n"
               "  unmeasured: [attention]\n" +
                   levels,
               "'attention' stands among the kernels that were measured");
}

TEST(ClusterFile, the_binary_knows_the_files_as_they_are) {
  for (const KnownCluster& known : known_clusters())
    EXPECT_EQ(known.text,
              read_file(FOURFOLD_SOURCE_DIR "/configs/machines/" + known.name + ".yaml"));
}

TEST(ClusterFile, the_example_of_the_page_reads_and_has_every_key) {
  const std::string page = read_file(FOURFOLD_SOURCE_DIR "/configs/machines/README.md");
  const std::string begin = "```yaml\n";
  const auto first = page.find(begin) + begin.size();
  const std::string example = page.substr(first, page.find("```", first) - first);
  const Cluster cluster = parsed(example);
  EXPECT_EQ(cluster.levels[1].port_bytes_per_s, 100e9);
  // Every key that is written is in the example too.
  for (const std::string& line : split(to_yaml(cluster), '\n')) {
    const std::string_view key = trim(line).substr(0, trim(line).find(':'));
    if (key.empty() || key.front() == '-') continue;
    EXPECT_NE(example.find(std::string(key) + ":"), std::string::npos) << key;
  }
}

TEST(ClusterFile, a_fault_is_told_with_its_line) {
  expect_fault("devices: 8", "devices: 9",
               "m.yaml:2:10: error: devices is '9', expected 8: the levels join 4 x 2");
  expect_fault("devices: 8\n", "", "'devices' is missing here");
  expect_fault("  memory: 40 GiB\n", "", "m.yaml:4:3: error: 'memory' is missing here");
  expect_fault("memory: 40 GiB", "memory: 40 GHz",
               "m.yaml:5:11: error: memory is '40 GHz', expected a size, such as 40 GiB");
  expect_fault("memory: 40 GiB", "memory: 0 GiB", "memory is '0 GiB', expected more than 0");
  expect_fault("memory: 40 GiB", "memory: 1e40 GiB",
               "memory is '1e40 GiB', expected 0.001 to 1e+30 B: a size");
  expect_fault("1555 GB/s", "1555 GB",
               "memory_bandwidth is '1555 GB', expected a rate, such as 25 GB/s");
  expect_fault("200 Gbit/s", "200 Gb/s", "link is '200 Gb/s', expected a rate");
  expect_fault("latency: 2 us", "latency: 2", "latency is '2', expected a time, such as 5 us");
  expect_fault("    latency: 4 us\n", "", "'latency' is missing here");
  expect_fault("    port: 50 GB/s\n", "", "'port' is missing here");
  expect_fault("  memory_bandwidth", "  memory_bandwith", "did you mean 'memory_bandwidth'?");
  expect_fault("title:", "titel:", "unknown 'titel'; known here: title, devices");
  expect_fault("units: 4", "units: 0",
               "m.yaml:15:12: error: units is '0', expected a whole number from 1");
  expect_fault("units: 4", "units: 4\n    units: 4", "m.yaml:16:5: error: duplicate key 'units'");
  expect_fault("share: 0.8", "share: 80", "share is '80', expected a number from 1e-09 to 1");
  expect_fault("flops: 1 TFLOP", "flops: 1 MFLOP",
               "its flops are not above those of the point before");
  expect_fault("    bf16:", "    fp16:", "unknown 'fp16'; known here: bf16, f32, f64");
  expect_fault("peak: 312 TFLOP/s", "peak: 312 TFLOP", "peak is '312 TFLOP', expected a speed");
  expect_fault("[50 GB/s, 0 B/s]", "[50 GB/s]", "pairs is no list of 2 lists of 2 rates");
  expect_fault("[50 GB/s, 0 B/s]", "[51 GB/s, 0 B/s]",
               "pairs has another rate from unit 1 to 0 than back");
  expect_fault("[50 GB/s, 0 B/s]", "[50 GB/s, 1 B/s]", "pairs has a rate from a unit to itself");
  expect_fault("[50 GB/s, 0 B/s]", "[fast, 0 B/s]", "pairs has 'fast', expected a rate");
  expect_fault("kind: all_reduce", "kind: reduce",
               "kind is 'reduce', expected all_reduce, all_gather");
  expect_fault("ranks: 4", "ranks: 3",
               "3 ranks with a stride of 2 do not divide the 8 ranks of this cluster");
  expect_fault("stride: 2", "stride: 4", "4 ranks with a stride of 4 do not divide the 8 ranks");
  expect_fault(
      "rate: 8 GB/s}",
      "rate: 8 GB/s}\n  - {kind: all_reduce, ranks: 4, stride: 2, latency: 1 us, rate: 1 GB/s}",
      "m.yaml:29:5: error: the same kind, ranks and stride stand here twice");
  expect_fault("rate: 8 GB/s}", "rate: 8 GB/s, times: [{bytes: 4 kB, time: 0 s}]}",
               "time is '0 s', expected more than 0");
  expect_fault("rate: 8 GB/s}",
               "rate: 8 GB/s, times: [{bytes: 4 kB, time: 1 us}, {bytes: 4 kB, time: 2 us}]}",
               "its bytes are not above those of the time before");
  expect_fault("units: 2", "units: 9223372036854775807", "at most 100000000 devices");
  expect_fault("title: \"Two hosts of four\"", "title: [a]", "title is a list, expected a text");
  EXPECT_NE(refusal_of([] { parsed(""); }).find("the file is nothing, expected a map"),
            std::string::npos);
}

TEST(ClusterFile, a_node_is_a_device_or_what_a_level_joins) {
  EXPECT_EQ(parsed(small_file).ranks_of_node(), 4);
  const auto with = [](const std::string& node) {
    std::string text = small_file;
    const std::string own = "node: nvlink\n";
    text.replace(text.find(own), own.size(), node);
    return parsed(text);
  };
  EXPECT_EQ(with("node: device\n").ranks_of_node(), 1);
  EXPECT_EQ(with("node: network\nranks_per_device: 2\n").ranks_of_node(), 16);
  EXPECT_EQ(with("").ranks_of_node(), std::nullopt);
  for (const char* node : {"node: device\n", "node: network\n", ""}) {
    const Cluster cluster = with(node);
    EXPECT_EQ(parsed(to_yaml(cluster)), cluster);
  }
  expect_fault("node: nvlink", "node: host",
               "m.yaml:26:7: error: node is 'host', expected device, nvlink, network");
  expect_fault("node: nvlink", "node: [nvlink]", "m.yaml:26:7: error: node is ");
}

TEST(KnownClusters, every_one_says_what_its_nodes_are) {
  for (const KnownCluster& known : known_clusters())
    EXPECT_TRUE(load_cluster(known.name).levels_of_node.has_value()) << known.name;
  EXPECT_EQ(load_cluster("perlmutter-40gb").ranks_of_node(), 4);
  EXPECT_EQ(load_cluster("frontier").ranks_of_node(), 8);
  EXPECT_EQ(load_cluster("rhino-s1").ranks_of_node(), 1);
}

TEST(ClusterFile, a_key_that_no_map_knows_is_refused_in_each_of_them) {
  expect_fault("devices: 8", "devices: 8\ncolour: red", "m.yaml:3:1: error: unknown 'colour'");
  expect_fault("  name: a device", "  name: a device\n  colour: red",
               "m.yaml:5:3: error: unknown 'colour'");
  expect_fault(
      "      peak:", "      colour: red\n      peak:", "m.yaml:9:7: error: unknown 'colour'");
  expect_fault("share: 0.3", "share: 0.3, colour: red", "m.yaml:11:40: error: unknown 'colour'");
  expect_fault("    units: 4", "    units: 4\n    colour: red",
               "m.yaml:16:5: error: unknown 'colour'");
  expect_fault("rate: 8 GB/s", "rate: 8 GB/s, colour: red", "unknown 'colour'; known here: kind");
}

TEST(ClusterFile, measured_kernels_are_read_and_written_and_their_faults_are_told) {
  const std::string levels = "levels:\n", begin = "  kernels:\n    - op: attention\n      type: ",
                    times =
                        "\n      times:\n        - {bytes: 1 MB, flops: 2 GFLOP, time: 30 us}\n",
                    next = "        - {bytes: 4 MB, time: 90 us}\n";
  std::string text = small_file;
  text.replace(text.find(levels), levels.size(), begin + "bf16" + times + next + levels);
  const Cluster cluster = parsed(text);
  EXPECT_EQ(cluster.device.kernels,
            (std::vector<MeasuredKernel>{
                {"attention", DType::bf16, {{1e6, 2e9, 30e-6}, {4e6, 0, 90e-6}}}}));
  EXPECT_EQ(parsed(to_yaml(cluster)), cluster);

  expect_fault(levels, begin + "f16" + times + levels,
               "m.yaml:15:13: error: type is 'f16', expected bf16, f32, f64");
  expect_fault(levels, begin + "f32\n      times: []\n" + levels,
               "m.yaml:14:7: error: no time of this kernel is given");
  expect_fault(levels, begin + "f32" + times + times.substr(times.find("        -")) + levels,
               "m.yaml:18:11: error: its bytes are not above those of the time before");
  expect_fault(levels,
               begin + "f32" + times + begin.substr(begin.find("    -")) + "f32" + times + levels,
               "m.yaml:18:7: error: the same op and type stand here twice");
  expect_fault(levels, begin + "f32\n      colour: red" + times + levels,
               "m.yaml:16:7: error: unknown 'colour'");
  expect_fault(levels, begin + "f32\n      times:\n        - {bytes: 1 MB}\n" + levels,
               "m.yaml:17:11: error: 'time' is missing here");
}

TEST(ClusterFile, several_faults_are_told_together) {
  std::string text = small_file;
  text.replace(text.find("40 GiB"), 6, "lots");
  text.replace(text.find("units: 4"), 8, "units: x");
  const std::string message = refusal_of([&] { parsed(text); });
  EXPECT_NE(message.find("m.yaml:5:"), std::string::npos) << message;
  EXPECT_NE(message.find("m.yaml:15:"), std::string::npos) << message;
}

TEST(KnownClusters, an_unknown_name_gets_those_that_are_near) {
  EXPECT_NE(refusal_of([] { load_cluster("perlmuter-40gb"); })
                .find("no machine is called 'perlmuter-40gb'; did you mean perlmutter-40gb or "
                      "perlmutter-80gb?"),
            std::string::npos);
  EXPECT_NE(refusal_of([] { load_cluster("fontier"); }).find("did you mean frontier?"),
            std::string::npos);
  EXPECT_NE(refusal_of([] { load_cluster("zzz"); }).find("known are: alps-gh200, atp-fig7a"),
            std::string::npos);
}

TEST(KnownClusters, a_path_is_read_as_a_file) {
  EXPECT_EQ(load_cluster(FOURFOLD_SOURCE_DIR "/configs/machines/frontier.yaml"),
            load_cluster("frontier"));
  EXPECT_NE(refusal_of([] { load_cluster("none.yaml"); }).find("none.yaml"), std::string::npos);
}

}  // namespace
}  // namespace fourfold::machine
