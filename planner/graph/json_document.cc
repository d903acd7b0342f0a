#include "planner/graph/json_document.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/text.h"

namespace reprise::planner::graph {
namespace {

using nlohmann::json;

// Builds the tree from the parser's events.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const std::string& name) : name_(name) {}

  const absl::Status& status() const { return status_; }
  json Take() { return std::move(root_); }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t& value) override { return Add(std::move(value)) != nullptr; }

  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& value) override {
    Level& level = levels_.back();
    level.key = std::move(value);
    if (!level.value->contains(level.key)) return true;
    return Refuse(absl::StrCat(Place(), ": expected each field once, found it again"));
  }

  bool parse_error(size_t, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      if (!levels_.empty() && levels_.back().value->is_array()) levels_.back().key.clear();
      return Refuse(absl::StrCat(Place(), ": expected a number below 2^63, found ",
                                 base::Printable(token.substr(0, 60))));
    }
    return Refuse(base::DescribeSyntaxError(error));
  }

 private:
  struct Level {
    json* value;
    std::string key;  // of objects: the field that comes next
  };

  bool Refuse(const std::string& what) {
    status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": ", what));
    return false;
  }

  // Where the next value belongs.
  std::string Place() const {
    std::string place;
    for (const Level& level : levels_) {
      if (level.value->is_object()) {
        absl::StrAppend(&place, place.empty() ? "" : ".", base::Printable(level.key));
      } else {
        // A level below this one is its last element.
        const bool inside = &level != &levels_.back();
        absl::StrAppend(&place, "[", level.value->size() - (inside ? 1 : 0), "]");
      }
    }
    return place.empty() ? "the whole" : place;
  }

  json* Add(json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *levels_.back().value;
    if (parent.is_object()) return &(parent[levels_.back().key] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool Open(json value) {
    if (levels_.size() == kMostDepth) {
      return Refuse(absl::StrCat("expected at most ", kMostDepth,
                                 " lists and objects within each other, found more"));
    }
    // Its parent gets no other element while it is open, so that the pointer stays good.
    levels_.push_back({Add(std::move(value)), ""});
    return true;
  }

  bool Close() {
    levels_.pop_back();
    return true;
  }

  const std::string& name_;
  absl::Status status_;
  json root_;
  std::vector<Level> levels_;
};

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, const std::string& name) {
  Builder builder(name);
  if (!json::sax_parse(text, &builder)) return builder.status();
  return builder.Take();
}

}  // namespace reprise::planner::graph
