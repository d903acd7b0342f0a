// Heap maps as static pictures, for READMEs and for continuous integration.
#ifndef REPRISE_CLI_PICTURE_H_
#define REPRISE_CLI_PICTURE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/report_input.h"
#include "cli/report_model.h"

namespace reprise::cli {

// The maps one above the other on one scale, with axes, the max load and a legend: an SVG that
// stands alone. The blocks are a picture inside, however many there are.
std::string DrawSvg(const Subject& subject, const std::vector<HeapMap>& maps);

// The same as a PNG file. Empty when it cannot be encoded.
std::string DrawPng(const Subject& subject, const std::vector<HeapMap>& maps);

// The curves of a page's facts (cli/report/data.js) as SVG, for pages without chart code.
std::string DrawCurves(const nlohmann::ordered_json& facts);

}  // namespace reprise::cli

#endif  // REPRISE_CLI_PICTURE_H_
