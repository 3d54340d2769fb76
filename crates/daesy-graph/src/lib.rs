//! Pure data: expression graph, units, spans, FlatDae and RegularDae.
