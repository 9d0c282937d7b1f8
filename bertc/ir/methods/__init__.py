"""Methods: what acts over the steps of a stage, a file each; ``ir.program.stage`` joins them."""
