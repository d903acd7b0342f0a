foreach(part safety place order json aliases execution)
  reprise_test(planner_graph_${part}_test LABEL unit SOURCES planner_graph_${part}_test.cc
               LIBRARIES reprise::planner)
endforeach()
if(REPRISE_HAVE_CBC)
  target_compile_definitions(planner_graph_order_test PRIVATE REPRISE_HAVE_CBC)
endif()
