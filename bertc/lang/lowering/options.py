"""Settings of several forms: the form that a written value has."""

from collections.abc import Iterator

from bertc.base.diagnostics import nearest
from bertc.lang.read import shapes
from bertc.lang.read.tree import Call, Name, Number, Series, String, Sum, Value


def _words(shape: shapes.ChoiceShape | shapes.KindShape) -> Iterator[str]:
    """The words of a shape; of a number with a unit what it is, since its kind is not written."""
    for word in shape.options:
        unit = shape.options[word].number_unit if isinstance(shape, shapes.KindShape) else ""
        yield f"a number of {unit}" if unit else word


def option_of(value: Value, shape: shapes.EitherShape) -> shapes.Shape:
    """The option that fits the form of a value."""
    kinds = [option for option in shape.options if isinstance(option, shapes.KindShape)]
    if isinstance(value, Number) and value.unit:
        counted = (o for o in kinds if any(n.number_unit == value.unit for n in o.options.values()))
        return next(counted, (kinds or shape.options)[0])
    if isinstance(value, Call):
        return next((o for o in kinds if value.name.text in o.options), (kinds or shape.options)[0])
    for option in shape.options:
        match option, value:
            case ((shapes.ChoiceShape() | shapes.KindShape()), Name(text=text)):
                if text in option.options:
                    return option
            case (
                (shapes.ListShape(), Series() | Sum())
                | (shapes.TextShape(), String())
                | (shapes.RealShape(), Number(value=float()))
                | (shapes.WholeShape(), Number(value=int()))
            ):
                return option
    named = [
        option
        for option in shape.options
        if isinstance(option, shapes.ChoiceShape | shapes.KindShape)
    ]
    if len(named) == len(shape.options):
        return shapes.ChoiceShape(tuple(word for option in named for word in _words(option)))
    choices = (option for option in shape.options if isinstance(option, shapes.ChoiceShape))
    known = tuple(word for option in choices for word in option.options)
    if isinstance(value, Name) and nearest(value.text, known):  # `freeze=al`
        integers = any(isinstance(option, shapes.WholeShape) for option in shape.options)
        return shapes.ChoiceShape((*known, *["a whole number"] * integers))
    return shape.options[0]
