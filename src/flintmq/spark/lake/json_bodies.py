"""Decode bodies in JSON with Spark's reader, and refuse texts that it misreads or needs too long for.

Spark's reader reads the first value of a text and ignores everything after it. It also computes all digits of a
DECIMAL: the eleven bytes `1e100000000` take minutes. This module therefore finds such numbers before Spark reads the
text.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

_CORRUPT: Final = "_corrupt"
# The strings of a JSON text; without them, only its numbers have exponents. An exponent of four digits or more is far
# beyond the range of a DECIMAL.
_STRINGS: Final = r'"(?:[^"\\]++|\\.)*+"'
_LARGE_EXPONENT: Final = "[0-9.][eE][+-]?[0-9]{4}"
# A string can also be read as a DECIMAL: 38 digits, zeros around them, and commas.
_NUMBER: Final = r"^\s*[+-]?[0-9,]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?\s*$"
_NUMBER_MAX_CHARACTERS: Final = 200


def decoded_json(text: Column, schema: StructType) -> Column:
    """A struct column with the decoded value and the mismatch: the reason if a text cannot be decoded, else null.

    `text` is null if the body is not UTF-8.
    """
    fields = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
    no_object = F.lit(f"it is not a JSON object of {fields}")
    safe = F.when(_has_safe_decimals(text, schema), text) if _has_decimal(schema) else text
    parsed = _parsed(safe, schema)
    unfit = F.when(text.isNull(), F.lit("it is not UTF-8"))
    unfit = unfit.when(parsed.isNull() | parsed[_CORRUPT].isNotNull(), no_object)
    unfit = unfit.when(~_is_one_value(text), F.lit("something follows its JSON object"))
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
    """Whether nothing follows the first JSON value.

    In [ ], a comma or ] may follow it; in { }, a comma or }. If both can be read, a comma or the end of the text
    follows it. With a comma, the list has more than one element.
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
    """Whether the text can be read quickly: its values for a DECIMAL have few digits and a small exponent."""
    has_large_exponent = F.regexp_replace(text, _STRINGS, "").rlike(_LARGE_EXPONENT)
    # Spark reads numbers as strings with the precision of a DOUBLE, which is enough to see how large they are.
    as_strings = StructType([StructField(field.name, _as_strings(field.dataType)) for field in schema.fields])
    return F.when(has_large_exponent, F.lit(False)).otherwise(_fits(_parsed(text, as_strings), schema))


def _as_strings(kind: DataType) -> DataType:
    """A type with strings instead of decimals."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _as_strings(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_as_strings(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _as_strings(kind.valueType))
    return StringType() if isinstance(kind, DecimalType) else kind


def _fits(column: Column, kind: DataType) -> Column:
    """Whether all decimals of a column that was read with strings instead of decimals fit their types."""
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
