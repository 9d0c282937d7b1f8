"""Commands to begin with: the shipped specs, and a spec written from a few answers."""

import typer

from bertc.commands.options import JsonOption, SetOption, SpecArgument, app, without_collecting

specs = typer.Typer(no_args_is_help=False, rich_markup_mode=None)
app.add_typer(specs, name="specs")


@specs.callback(invoke_without_command=True)
@without_collecting()
def list_specs(context: typer.Context, json: JsonOption = False) -> None:
    """List the shipped specs: name, parameters, paper, and what each is.

    `extends NAME` builds on one, `bertc specs show NAME` prints all of one.
    """
    if context.invoked_subcommand:
        return
    from bertc.gallery import gallery, gallery_json, gallery_table

    typer.echo((gallery_json if json else gallery_table)(gallery()))


@specs.command("show")
@without_collecting()
def show_specs(spec: SpecArgument, set: SetOption = None, json: JsonOption = False) -> None:
    """Print every setting of a spec, each with its source, as a spec to begin from.

    `here` is written in the spec itself, with what its comment says; then come the spec that it
    extends, by name, `default` and `derived` (the rule). Grids print each of their points.
    """
    from bertc.gallery import show_json, show_spec

    typer.echo((show_json if json else show_spec)(spec, set or ()))
