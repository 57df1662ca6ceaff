#include "checkpoint/model_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/json.h"
#include "base/small_file.h"
#include "checkpoint/safetensors.h"

namespace fourfold::checkpoint {
namespace {

constexpr std::string_view file_ending = ".safetensors";

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

bool is_index(const std::string& path) {
  return path.ends_with(model_index_file);
}

Json read_index_file(const std::string& path) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  auto text = read_small_file(path, most_bytes);
  if (const auto* fault = std::get_if<FileFault>(&text))
    fail_file(path, format("{}; {}", fault->reason, fault->advice));
  return parse_json(std::get<std::string>(text), path, ExitCode::no_checkpoint);
}

/// For each tensor the file that an index names.
using Places = std::map<std::string, std::string>;

Places read_places(const std::string& path) {
  const Json json = read_index_file(path);
  const Json* map = json.find("weight_map");
  if (map == nullptr || map->kind() != Json::Kind::object || map->members().empty())
    fail_file(path, "expected an object weight_map from tensors to files; use another copy");
  Places places;
  for (const Json::Member& member : map->members()) {
    const bool is_name = member.value.kind() == Json::Kind::string &&
                         !member.value.as_string().empty() &&
                         member.value.as_string().find('/') == std::string::npos;
    if (!is_name)
      fail_file(path, format("weight_map {} = {}: expected the name of a file beside the index",
                             Json(member.key).dump(), member.value.dump()));
    places[member.key] = member.value.as_string();
  }
  return places;
}

std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

/// The files that an index names.
std::vector<std::string> paths_of(const Places& places, const std::string& index) {
  std::set<std::string> paths;
  for (const auto& [tensor, file] : places) paths.insert(join_path(folder_of(index), file));
  return {paths.begin(), paths.end()};
}

/// Refuses files that hold other tensors than the index says.
void check_places(const Places& places, const StoredModel& model, const std::string& path) {
  std::string lines;
  for (const auto& [name, file] : places)
    if (model.find(name) == nullptr) lines += format("\n  {}: not in {}", Json(name).dump(), file);
  for (const StoredModel::Tensor& tensor : model.tensors())
    if (!places.contains(tensor.name))
      lines += format("\n  {}: in a file, but not in the index", Json(tensor.name).dump());
  if (!lines.empty())
    fail_file(path, format("does not fit the files that it names; use another copy:{}", lines));
}

/// A number of steps, where the text is one.
std::optional<std::int64_t> parse_step(const std::string& text) {
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool is_step = error == std::errc() && stop == text.data() + text.size();
  return is_step ? std::optional(step) : std::nullopt;
}

std::optional<std::int64_t> step_of_file(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const Metadata& metadata = file.header().metadata();
  const auto found = metadata.find("step");
  return found == metadata.end() ? std::nullopt : parse_step(found->second);
}

}  // namespace

std::string model_file_name(std::size_t file, std::size_t files) {
  return files == 1 ? std::string(single_model_file)
                    : format("model-{:05}-of-{:05}{}", file + 1, files, file_ending);
}

bool is_model_file(std::string_view name) {
  if (name == single_model_file || name == model_index_file) return true;
  constexpr std::string_view begin = "model-", middle = "-of-";
  if (!name.starts_with(begin) || !name.ends_with(file_ending)) return false;
  name = name.substr(begin.size(), name.size() - begin.size() - file_ending.size());
  const std::size_t at = name.find(middle);
  return at != name.npos && is_digits(name.substr(0, at)) &&
         is_digits(name.substr(at + middle.size()));
}

std::vector<std::size_t> ends_of_files(std::span<const std::int64_t> tensor_bytes,
                                       std::int64_t max_file_bytes) {
  std::vector<std::size_t> ends;
  std::int64_t left = max_file_bytes;
  for (std::size_t i = 0; i < tensor_bytes.size(); ++i) {
    if (i > 0 && tensor_bytes[i] > left) {
      ends.push_back(i);
      left = max_file_bytes;
    }
    left -= std::min(tensor_bytes[i], left);
  }
  ends.push_back(tensor_bytes.size());
  return ends;
}

void write_model_index(const std::string& folder, std::span<const ListedFile> files,
                       const Metadata& metadata) {
  std::int64_t total = 0;
  Places places;
  for (const ListedFile& file : files)
    for (const TensorInfo& tensor : file.tensors) {
      total += tensor.shape.elements() * size_bytes(tensor.dtype);
      places[tensor.name] = file.name;
    }
  Json facts = Json::object();
  for (const auto& [key, value] : metadata) facts.set(key, value);
  facts.set("total_size", total);
  Json map = Json::object();
  for (const auto& [name, file] : places) map.set(name, file);
  const Json index =
      Json::object().set("metadata", std::move(facts)).set("weight_map", std::move(map));
  write_file_atomic(join_path(folder, std::string(model_index_file)), index.dump() + "\n");
}

std::optional<std::string> find_model(const std::string& folder) {
  for (const std::string_view name : {single_model_file, model_index_file}) {
    std::string path = join_path(folder, std::string(name));
    if (file_exists(path)) return path;
  }
  return std::nullopt;
}

std::vector<std::string> list_model_files(const std::string& folder) {
  std::vector<std::string> names;
  if (!file_exists(folder)) return names;
  for (const FileSystem::Entry& entry : real_files().list(folder))
    if (is_model_file(entry.name)) names.push_back(entry.name);
  std::ranges::sort(names);
  std::ranges::stable_partition(names,
                                [](const std::string& name) { return name == model_index_file; });
  return names;
}

std::unique_ptr<StoredModel> open_model(const std::string& path) {
  if (!is_index(path)) return open_model_file(path);
  const Places places = read_places(path);
  auto model = open_model_files(folder_of(path), paths_of(places, path));
  check_places(places, *model, path);
  return model;
}

std::optional<std::int64_t> step_of_model(const std::string& path) {
  if (is_index(path)) {
    const Json index = read_index_file(path);
    const Json* facts = index.find("metadata");
    const Json* step =
        facts == nullptr || facts->kind() != Json::Kind::object ? nullptr : facts->find("step");
    if (step == nullptr || step->kind() != Json::Kind::string) return std::nullopt;
    return parse_step(step->as_string());
  }
  return step_of_file(path);
}

std::optional<std::string> fault_of_model(const std::string& path, std::int64_t step) {
  try {
    open_model(path);
    std::vector<std::string> files = {path};
    if (is_index(path)) std::ranges::copy(paths_of(read_places(path), path), back_inserter(files));
    for (const std::string& file : files)
      if (const auto of = file == path ? step_of_model(path) : step_of_file(file);
          of && *of != step)
        return format("{}: belongs to a model of step {}, not {}", file, *of, step);
    return std::nullopt;
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace fourfold::checkpoint
