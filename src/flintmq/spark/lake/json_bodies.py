"""Bodies in JSON: Spark's reader of JSON, and what it passes over or takes too long for.

It reads the first value of a text and nothing behind it. And it works out a number for a DECIMAL to its last digit:
`1e100000000`, eleven bytes, takes minutes. So texts with such numbers are found before they are read.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

_CORRUPT: Final = "_corrupt"
# All strings of a JSON text, so that what is left of it are its numbers, and an exponent of four digits or more: far
# beyond what a DECIMAL holds.
_STRINGS: Final = r'"(?:[^"\\]++|\\.)*+"'
_LARGE_EXPONENT: Final = "[0-9.][eE][+-]?[0-9]{4}"
# A DECIMAL may be said by a string, too: 38 digits, zeros around them, and commas.
_NUMBER: Final = r"^\s*[+-]?[0-9,]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?\s*$"
_NUMBER_MAX_CHARACTERS: Final = 200


def decoded_json(text: Column, schema: StructType) -> Column:
    """A struct of the value and, where there is none, why not. `text` is null where it is not UTF-8."""
    said = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
    no_object = F.lit(f"it is no JSON object of {said}")
    safe = F.when(_has_safe_decimals(text, schema), text) if _has_decimal(schema) else text
    parsed = _parsed(safe, schema)
    unfit = F.when(text.isNull(), F.lit("it is not UTF-8"))
    unfit = unfit.when(parsed.isNull() | parsed[_CORRUPT].isNotNull(), no_object)
    unfit = unfit.when(~_is_one_value(text), F.lit("something stands behind its first JSON object"))
    for field in schema.fields:
        if not field.nullable:
            unfit = unfit.when(parsed[field.name].isNull(), F.lit(f"it has no {field.name}"))
    value = F.struct(*[parsed[field.name].alias(field.name) for field in schema.fields])
    return F.struct(F.when(unfit.isNull(), value).alias("value"), unfit.alias("mismatch"))


def _parsed(text: Column, schema: StructType) -> Column:
    return F.from_json(
        text,
        StructType([*schema.fields, StructField(_CORRUPT, StringType())]),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )


def _is_one_value(text: Column) -> Column:
    """Whether nothing stands behind the first JSON value.

    Within [ ], what may follow it is a comma or ]; within { }, a comma or }. Where both can be read, it is a comma or
    the end of the text; and with a comma, the list has more than one element.
    """
    count = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    names = F.json_object_keys(F.concat(F.lit('{"value":'), text, F.lit("}")))
    return F.coalesce((count == 1) & names.isNotNull(), F.lit(False))


# -- decimals ----------------------------------------------------------------------------------------------------------


def _has_decimal(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_decimal(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_decimal(kind.elementType)
    return _has_decimal(kind.valueType) if isinstance(kind, MapType) else isinstance(kind, DecimalType)


def _has_safe_decimals(text: Column, schema: StructType) -> Column:
    """Whether all that is for a DECIMAL is a number that fits one, as far as a look at its digits tells."""
    has_large_exponent = F.regexp_replace(text, _STRINGS, "").rlike(_LARGE_EXPONENT)
    # As strings, numbers are no more exact than a DOUBLE, which will do to see how large they are.
    as_strings = StructType([StructField(field.name, _as_strings(field.dataType)) for field in schema.fields])
    return F.when(has_large_exponent, F.lit(False)).otherwise(_fits(_parsed(text, as_strings), schema))


def _as_strings(kind: DataType) -> DataType:
    """The same type with strings in the place of decimals."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _as_strings(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_as_strings(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _as_strings(kind.valueType))
    return StringType() if isinstance(kind, DecimalType) else kind


def _fits(column: Column, kind: DataType) -> Column:
    """Whether all decimals within a column that has strings in their place fit."""
    if isinstance(kind, DecimalType):
        is_number = (F.length(column) <= _NUMBER_MAX_CHARACTERS) & column.rlike(_NUMBER)
        number = F.when(is_number, F.regexp_replace(column, ",", "").try_cast(kind))
        return column.isNull() | number.isNotNull()
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return column.isNull() | F.forall(column, lambda each: _fits(each, element))
    if isinstance(kind, MapType):
        value = kind.valueType
        return column.isNull() | F.forall(F.map_values(column), lambda each: _fits(each, value))
    fits = F.lit(True)
    if isinstance(kind, StructType):
        for field in kind.fields:
            if _has_decimal(field.dataType):
                fits = fits & _fits(column[field.name], field.dataType)
    return fits
