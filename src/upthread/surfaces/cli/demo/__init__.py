"""The demo: the main job on real processes, and the same job without continuity beside it.

`stage` sets a project up, `counting` counts what the agent received, `with_upthread` and `without`
play the two parts, `verb` tells it. Nothing here is a figure that was not counted in that run.
"""
