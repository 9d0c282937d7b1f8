"""Programs: as written, with complete settings, resolved, and as a weight table."""

from bertc.ir.program.complete import Complete, CompleteSettings, CompleteStage
from bertc.ir.program.network import MAIN, Network
from bertc.ir.program.passing import find_frozen_part, heads_of
from bertc.ir.program.reading import adaptive_unit, rows_by_direction, split_rows, stand_in
from bertc.ir.program.resolved import Resolved, Run, frozen_weights, model_weights, trained_names
from bertc.ir.program.settings import Settings, layout_of
from bertc.ir.program.stage import METHODS, AnyStage, Stage, TaskStage, TextStage
from bertc.ir.written import Given, Origin, Program, StageGiven, map_terms
