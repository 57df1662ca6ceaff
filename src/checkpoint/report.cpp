#include "checkpoint/report.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/cover.h"

namespace fourfold::checkpoint {
namespace {

// JSON's integers have a sign.
std::int64_t as_signed(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits);
}

Shape shape_of(const Json& list) {
  Shape shape;
  for (const Json& item : list.items()) shape.push_back(item.as_integer());
  return shape;
}

}  // namespace

std::string to_text(const RankReport& report) {
  Json hashes = Json::array(), parts = Json::array();
  for (const std::uint64_t hash : report.file.chunk_hashes) hashes.push(as_signed(hash));
  for (const RankReport::Part& part : report.parts)
    parts.push(Json::array({part.name, std::string(to_string(part.dtype)),
                            Json::array_of(part.shape), Json::array_of(part.box.origin),
                            Json::array_of(part.box.extent), as_signed(part.digest)}));
  return Json::object({{"error", report.error},
                       {"code", static_cast<std::int64_t>(report.code)},
                       {"name", report.file.name},
                       {"size", report.file.size_bytes},
                       {"hashes", std::move(hashes)},
                       {"is_finite", report.is_finite},
                       {"parts", std::move(parts)}})
      .dump();
}

RankReport parse_report(std::string_view text) {
  const Json json = parse_json(text, "a rank's report");
  RankReport report;
  report.error = json.find("error")->as_string();
  report.code = static_cast<ExitCode>(json.find("code")->as_integer());
  report.file.name = json.find("name")->as_string();
  report.file.size_bytes = json.find("size")->as_integer();
  report.is_finite = json.find("is_finite")->as_bool();
  for (const Json& hash : json.find("hashes")->items())
    report.file.chunk_hashes.push_back(static_cast<std::uint64_t>(hash.as_integer()));
  for (const Json& item : json.find("parts")->items()) {
    const auto& fields = item.items();
    report.parts.push_back({fields[0].as_string(),
                            parse_dtype(fields[1].as_string()).value(),
                            shape_of(fields[2]),
                            {shape_of(fields[3]), shape_of(fields[4])},
                            static_cast<std::uint64_t>(fields[5].as_integer())});
  }
  return report;
}

void add_report(Manifest& manifest, const RankReport& report, std::size_t rank) {
  if (!report.error.empty())
    throw UserError(report.code, format("rank {}: {}", rank, report.error));
  manifest.is_finite = manifest.is_finite && report.is_finite;
  if (report.file.name.empty()) return;
  const std::size_t file = manifest.files.size();
  manifest.files.push_back(report.file);
  for (const RankReport::Part& part : report.parts) {
    auto tensor = std::find_if(manifest.tensors.begin(), manifest.tensors.end(),
                               [&](const StoredTensor& t) { return t.name == part.name; });
    if (tensor == manifest.tensors.end())
      tensor = manifest.tensors.insert(tensor, {part.name, part.dtype, part.shape, 0, {}});
    require(tensor->dtype == part.dtype && tensor->shape == part.shape,
            "ranks agree on the tensors of their model");
    tensor->digest += part.digest;
    tensor->slices.push_back({file, part.box});
  }
}

void check_complete(const Manifest& manifest,
                    const std::map<std::string, std::uint64_t>& expected) {
  require(!manifest.tensors.empty(), "a model has state to save");
  for (const StoredTensor& tensor : manifest.tensors) {
    const std::string fault = find_gap_or_overlap(tensor);
    if (!fault.empty()) fail_internal("ranks save each element of the state once: " + fault);
    const auto digest = expected.find(tensor.name);
    if (digest != expected.end() && digest->second != tensor.digest)
      throw UserError(ExitCode::storage,
                      format("{}: the bytes to be saved have the digest {:016x}, the state had "
                             "{:016x}; the copy is not of one step",
                             tensor.name, tensor.digest, digest->second));
  }
}

}  // namespace fourfold::checkpoint
