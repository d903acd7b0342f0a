#include "report/page.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "report_assets.h"

namespace reprise::report {
namespace {

// Text between tags; `title` comes from a file name, which may hold anything.
std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

// Inside a script element only its end tag and a comment's beginning mean something.
std::string EscapeScript(std::string text) {
  absl::StrReplaceAll({{"</", "<\\/"}, {"<!--", "<\\u0021--"}}, &text);
  return text;
}

// No text of the page may give orders to whoever shows it, or turn its direction.
void MakePrintable(nlohmann::ordered_json& facts) {
  if (facts.is_string()) facts = base::Printable(facts.get_ref<const std::string&>());
  if (!facts.is_structured()) return;
  for (nlohmann::ordered_json& it : facts) MakePrintable(it);
}

void WriteFacts(const Page& page, const std::function<void(std::string_view)>& write) {
  nlohmann::ordered_json facts = page.facts;
  MakePrintable(facts);
  facts["columns"] = nlohmann::ordered_json::array();
  for (const Column& column : page.columns) {
    facts["columns"].push_back({{"name", column.name},
                                {"bytes", column.bytes},
                                {"count", column.count},
                                {"delta", column.delta}});
  }
  write("<script type=\"application/json\" id=\"facts\">");
  write(EscapeScript(facts.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
  write("</script>\n");
}

// Each column leaves for the workers as soon as the browser has read it.
void WriteColumns(const Page& page, const std::function<void(std::string_view)>& write) {
  for (const Column& column : page.columns) {
    write(absl::StrCat("<script type=\"text/plain\" id=\"column-", column.name, "\">"));
    write(column.text);
    write(absl::StrCat("</script>\n<script>takeColumn('", column.name, "')</script>\n"));
  }
}

}  // namespace

bool HasChart() { return !std::string_view(assets::kChartScript).empty(); }

void WritePage(const Page& page, const std::function<void(std::string_view)>& write) {
  std::string_view rest = assets::kPage;
  while (!rest.empty()) {
    const size_t open = rest.find("{{");
    write(rest.substr(0, open));
    if (open == std::string_view::npos) return;
    const size_t close = rest.find("}}", open);
    const std::string_view name = rest.substr(open + 2, close - open - 2);
    rest.remove_prefix(close + 2);
    if (name == "title") write(EscapeHtml(base::Printable(page.title)));
    if (name == "style") {
      write(assets::kChartStyle);
      write(assets::kStyle);
    }
    if (name == "facts") WriteFacts(page, write);
    if (name == "columns") WriteColumns(page, write);
    if (name == "early") write(assets::kEarlyScript);
    if (name == "curves") write(page.fallback_curves);
    if (name == "chart") write(assets::kChartScript);
    if (name == "worker") write(assets::kWorker);
    if (name == "script") write(assets::kScript);
  }
}

}  // namespace reprise::report
