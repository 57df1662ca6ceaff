// fourfold machines: lists the clusters that are known, or shows one.
#include <string>

#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/commands.h"
#include "machine/cluster_text.h"
#include "machine/known_clusters.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

using machine::Cluster;

std::string list_text() {
  std::string text = format("{:<18} {:>8}  {}\n", "name", "devices", "what it is");
  for (const machine::KnownCluster& known : machine::known_clusters()) {
    const Cluster cluster = machine::load_cluster(known.name);
    text += format("{:<18} {:>8}  {}\n", cluster.name, format_grouped(cluster.devices()),
                   cluster.title);
  }
  return text +
         "\nOne of them: fourfold machines NAME; a file of your own: fourfold machines FILE\n";
}

Json list_json() {
  Json list = Json::array();
  for (const machine::KnownCluster& known : machine::known_clusters()) {
    const Cluster cluster = machine::load_cluster(known.name);
    list.push(Json::object(
        {{"name", cluster.name}, {"title", cluster.title}, {"devices", cluster.devices()}}));
  }
  return list;
}

}  // namespace

void machines(const MachinesArguments& arguments) {
  std::string text;
  const bool is_json = arguments.format == "json";
  if (arguments.machine.empty()) {
    text = is_json ? list_json().dump() + "\n" : list_text();
  } else {
    const Cluster cluster = machine::load_cluster(arguments.machine);
    text = is_json ? machine::cluster_json(cluster).dump() + "\n" : machine::cluster_text(cluster);
  }
  screen::print("%s", text.c_str());
}

}  // namespace fourfold::cli
