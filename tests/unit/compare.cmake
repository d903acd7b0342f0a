reprise_test(compare_lower_test LABEL unit SOURCES compare_lower_test.cc
             LIBRARIES reprise::replay)
reprise_test(compare_player_test LABEL unit SOURCES compare_player_test.cc
             LIBRARIES reprise::replay)
add_dependencies(compare_player_test reprise_player)
reprise_test(compare_pins_test LABEL unit SOURCES compare_pins_test.cc
             LIBRARIES reprise::replay)
reprise_test(compare_significance_test LABEL unit SOURCES compare_significance_test.cc
             LIBRARIES reprise::replay)
