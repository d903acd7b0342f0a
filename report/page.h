// The page: one HTML file without references to anything outside.
#ifndef REPRISE_REPORT_PAGE_H_
#define REPRISE_REPORT_PAGE_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/model.h"

namespace reprise::report {

struct Page {
  std::string title;
  nlohmann::ordered_json facts;  // what report/page/*.js reads as `facts`
  std::vector<Column> columns;
  std::string fallback_curves;  // SVG, shown where the page has no chart code (HasChart)
};

// Whether this build has the chart library inside; else curves are static pictures.
bool HasChart();

// Hands the page to `write`, piece by piece.
void WritePage(const Page& page, const std::function<void(std::string_view)>& write);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_PAGE_H_
