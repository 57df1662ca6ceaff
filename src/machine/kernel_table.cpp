#include "machine/kernel_table.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/yaml.h"
#include "machine/map_reader.h"

namespace fourfold::machine {
namespace {

constexpr const char* remedy = "write a new table with `fourfold bench kernels CONFIG -o FILE`";

/// Rows that lines may be about: products of matrices, and what is like them but for a line of its
/// own form, convolutions and, on a device, attention.
struct Rows {
  std::vector<std::string> products, convolutions, cpu, device;
};
const Rows& rows() {
  static const Rows made = [] {
    Rows rows;
    std::vector<std::string> cores;
    for (const op::Op& row : op::all_rows()) {
      const std::string name(op::name(row));
      if (op::product_of(row))
        rows.products.push_back(name);
      else if (op::work_class(row) == op::WorkClass::product)
        rows.convolutions.push_back(name);
      else if (op::work_class(row) == op::WorkClass::core)
        cores.push_back(name);
    }
    rows.cpu = rows.products;
    rows.cpu.insert(rows.cpu.end(), rows.convolutions.begin(), rows.convolutions.end());
    rows.device = rows.cpu;
    rows.device.insert(rows.device.end(), cores.begin(), cores.end());
    return rows;
  }();
  return made;
}

/// True for a chain of known rows, or one of them alone, that begins with one of `first`.
bool begins_with(const std::string& op, const std::vector<std::string>& first) {
  static const std::vector<op::Op> known = op::all_rows();
  const std::vector<std::string_view> names = op::names_of_chain(op);
  return std::ranges::find(first, names[0]) != first.end() &&
         std::ranges::all_of(names, [](std::string_view name) {
           return std::ranges::find(known, name, op::name) != known.end();
         });
}
bool is_product(const std::string& op) {
  return begins_with(op, rows().products);
}
bool is_convolution(const std::string& op) {
  return begins_with(op, rows().convolutions);
}

/// The name of one of the rows, or of a chain that begins with a product or a convolution.
std::string row(MapReader& reader, const std::vector<std::string>& rows) {
  std::string op = reader.text("op");
  if (std::find(rows.begin(), rows.end(), op) == rows.end() && !is_product(op) &&
      !is_convolution(op))
    reader.wrong("op", format("{}, or a chain of rows after a product", join(rows, ", ")));
  return op;
}

/// What lines are for, a GPU or a CPU, and what they may name.
struct LineKind {
  const std::vector<std::string>& rows;
  const Implementations& implementations;
};

/// "8x32x32x64 64x3x3x64".
std::string shapes_text(const std::vector<Shape>& shapes) {
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) {
    std::vector<std::string> dims;
    for (const std::int64_t dim : shape) dims.push_back(format("{}", dim));
    texts.push_back(dims.empty() ? "1" : join(dims, "x"));
  }
  return join(texts, " ");
}

/// The shapes of operands, "8x32x32x64 64x3x3x64"; none where the text is wrong.
std::vector<Shape> read_shapes(MapReader& reader) {
  std::vector<Shape> shapes;
  for (const std::string& text : split(reader.text("shapes"), ' ')) {
    Shape shape;
    for (const std::string& word : split(text, 'x')) {
      std::int64_t dim = 0;
      const char* end = word.data() + word.size();
      const auto [stop, error] = std::from_chars(word.data(), end, dim);
      if (error != std::errc{} || stop != end || dim < 1) {
        reader.wrong("shapes", "the shapes of all operands, as 8x32x32x64 64x3x3x64");
        return {};
      }
      shape.push_back(dim);
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// Beyond any device: what a damaged file may say.
constexpr double most_gflops = 1e9;
constexpr std::int64_t most_workspace_bytes = std::int64_t{1} << 40;

void read_sizes(MapReader& reader, KernelTable::Line& line) {
  line.layout = reader.one_of("layout", {"nn", "nt", "tn", "tt"});
  line.m = reader.whole("m", 1);
  line.n = reader.whole("n", 1);
  line.k = reader.whole("k", 1);
}

KernelTable::Line read_line(const YamlDocument& document, const YamlNode& node,
                            const LineKind& kind, std::vector<Diagnostic>& problems) {
  MapReader reader(document, node, problems, remedy, "this line");
  KernelTable::Line line;
  if (reader.has("op")) line.op = row(reader, kind.rows);
  const std::string dtype = reader.one_of("dtype", {"f32", "f64", "bf16"});
  line.dtype = dtype == "f64" ? DType::f64 : dtype == "bf16" ? DType::bf16 : DType::f32;
  line.threads = reader.whole("threads", 1);
  if (is_product(line.op))
    read_sizes(reader, line);
  else if (reader.has("shapes"))
    line.shapes = read_shapes(reader);
  line.implementation = kind.implementations
                            ? reader.one_of("by", kind.implementations(line.op, line.dtype))
                            : reader.text("by");
  line.gflops = reader.number("gflops", 0, most_gflops);
  if (reader.has("workspace")) {
    line.workspace_bytes = reader.whole("workspace", 0);
    if (line.workspace_bytes > most_workspace_bytes) reader.wrong("workspace", "at most 1 TiB");
  }
  reader.refuse_others();
  return line;
}

auto order(const KernelTable::Line& line) {
  const double volume =
      static_cast<double>(line.m) * static_cast<double>(line.n) * static_cast<double>(line.k);
  return std::tuple(line.threads, line.dtype, volume, line.layout, line.m, line.n, line.k, line.op,
                    shapes_text(line.shapes));
}

std::vector<KernelTable::Line> in_order(std::vector<KernelTable::Line> lines) {
  std::sort(lines.begin(), lines.end(),
            [](const auto& a, const auto& b) { return order(a) < order(b); });
  return lines;
}

Choice choice_of(const KernelTable::Line& line) {
  Choice choice;
  choice.op = line.op;
  choice.dtype = line.dtype;
  choice.implementation = line.implementation;
  choice.shapes = line.shapes;
  if (!line.shapes.empty()) choice.workspace_bytes = line.workspace_bytes;
  if (!is_product(line.op)) return choice;
  choice.layout = line.layout;
  choice.max_m = line.m;
  choice.max_n = line.n;
  choice.max_k = line.k;
  choice.workspace_bytes = line.workspace_bytes;
  return choice;
}

std::string line_text(const KernelTable::Line& line) {
  const bool has_sizes = is_product(line.op);
  return format(
      "  - {{{}dtype: {}, threads: {}, {}by: {}, gflops: {}{}}}\n",
      line.op == product_row() ? "" : format("op: {}, ", line.op), to_string(line.dtype),
      line.threads,
      has_sizes ? format("layout: {}, m: {}, n: {}, k: {}, ", line.layout, line.m, line.n, line.k)
      : line.shapes.empty() ? ""
                            : format("shapes: {}, ", shapes_text(line.shapes)),
      line.implementation, line.gflops,
      line.workspace_bytes ? format(", workspace: {}", *line.workspace_bytes) : "");
}

/// What the messages call where a table was measured.
const std::string& place_of(const KernelTable& table) {
  return table.device.empty() ? table.cpu : table.device;
}

}  // namespace

bool is_row_of_cpu(const op::Op& row) {
  return op::work_class(row) == op::WorkClass::product || op::product_of(row);
}

const std::string& product_row() {
  static const std::string found = [] {
    for (const op::Op& row : op::all_rows())
      if (const auto product = op::product_of(row); product && op::Op(*product) == row)
        return std::string(op::name(row));
    fail_internal("a row is a product");
  }();
  return found;
}

std::string to_text(KernelTable table) {
  std::string text =
      "# Which implementation computes which product, measured by `fourfold bench kernels`.\n"
      "# A line decides for products up to its m, n and k; of several the smallest.\n";
  const bool is_device = !table.device.empty();
  text += format("version: {}\n{}: {}\nmatmul:\n", KernelTable::version,
                 is_device ? "device" : "cpu", yaml_quoted(is_device ? table.device : table.cpu));
  for (const KernelTable::Line& line : in_order(std::move(table.lines))) text += line_text(line);
  return text;
}

KernelTable read_kernel_table(const std::string& text, const std::string& name,
                              const KnownImplementations& known) {
  std::vector<Diagnostic> problems;
  const YamlDocument document = parse_yaml(text, name, problems);
  KernelTable table;
  if (problems.empty()) {
    MapReader reader(document, document.root, problems, remedy, "the table");
    const std::int64_t version = reader.whole("version", 0);
    if (problems.empty() && version != KernelTable::version)
      reader.wrong("version", format("{}", KernelTable::version));
    const bool is_device = reader.has("device");
    (is_device ? table.device : table.cpu) = reader.text(is_device ? "device" : "cpu");
    const LineKind kind{is_device ? rows().device : rows().cpu,
                        is_device ? known.device : known.cpu};
    for (const YamlNode& line : reader.list("matmul"))
      table.lines.push_back(read_line(document, line, kind, problems));
    reader.refuse_others();
  }
  if (!problems.empty()) throw_together(problems, ExitCode::bad_config);
  return table;
}

std::vector<Choice> device_choices_of(const KernelTable& table, const std::string& name,
                                      const std::optional<std::string>& device) {
  if (table.device.empty() || (device && table.device != *device))
    throw UserError(ExitCode::bad_config,
                    format("{} was measured on '{}', this is '{}'; {} --device cuda here", name,
                           place_of(table), device.value_or("a run on a GPU"), remedy));
  std::vector<Choice> choices;
  for (const KernelTable::Line& line : in_order(table.lines)) choices.push_back(choice_of(line));
  return choices;
}

std::vector<Choice> choices_of(const KernelTable& table, const std::string& name,
                               const std::string& cpu, int threads) {
  if (table.cpu != cpu)
    throw UserError(ExitCode::bad_config, format("{} was measured on '{}', this is '{}'; {} here",
                                                 name, place_of(table), cpu, remedy));
  std::vector<Choice> choices;
  for (const KernelTable::Line& line : in_order(table.lines))
    if (line.threads == threads) choices.push_back(choice_of(line));
  if (choices.empty())
    throw UserError(ExitCode::bad_config,
                    format("{} has no line for {} thread{}, which a rank of this run has; {} with "
                           "--threads {}, or set run.threads",
                           name, threads, threads == 1 ? "" : "s", remedy, threads));
  return choices;
}

}  // namespace fourfold::machine
