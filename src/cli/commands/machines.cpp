#include <string>

#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "machine/cluster_text.h"
#include "machine/known_clusters.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

struct MachinesArguments {
  std::string machine, format = "text";
};

void list_options(OptionList& options, MachinesArguments& given) {
  options.add("MACHINE", given.machine,
              "A name of the list, or a file such as `bench machine` writes",
              {.offers = machine_names});
  add_format_option(options, given.format, "text, or json: all figures in bytes and seconds");
}

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

}  // namespace

void add_machines(Commands& commands) {
  commands.add({"machines", After{"bench"}, "List the clusters that are known, or show one",
                "machines perlmutter-40gb"},
               list_options, machines);
}

}  // namespace fourfold::cli
