// Heap maps as static pictures, for READMEs and for continuous integration.
#ifndef REPRISE_REPORT_PICTURE_H_
#define REPRISE_REPORT_PICTURE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/model.h"
#include "report/subject.h"

namespace reprise::report {

// The maps one above the other on one scale, with axes, the max load and a legend: an SVG that
// stands alone. The blocks are a picture inside, however many there are.
std::string DrawSvg(const Subject& subject, const std::vector<HeapMap>& maps);

// The same as a PNG file. Empty when it cannot be encoded.
std::string DrawPng(const Subject& subject, const std::vector<HeapMap>& maps);

// The curves of a page's facts (report/page/data.js) as SVG, for pages without chart code.
std::string DrawCurves(const nlohmann::ordered_json& facts);

}  // namespace reprise::report

#endif  // REPRISE_REPORT_PICTURE_H_
