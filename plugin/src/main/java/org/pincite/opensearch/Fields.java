package org.pincite.opensearch;

import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.xcontent.DeprecationHandler;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.core.xcontent.XContentParser;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A JSON object that is read strictly: each field is taken once, by its type, and {@link #end()} refuses what is left.
 *
 * <p>Every method throws {@link IllegalArgumentException} with the field's name, never with its value: values may be
 * query or passage text.
 */
final class Fields {
    private final Map<String, Object> left;
    private final String where;

    private Fields(Map<?, ?> map, String where) {
        this.left = new LinkedHashMap<>();
        map.forEach((key, value) -> left.put(String.valueOf(key), value));
        this.where = where;
    }

    /** Wraps an object that a parser has already read. */
    static Fields of(Map<String, Object> map, String where) {
        return new Fields(map, where);
    }

    /** Reads one JSON object that must be the whole text; duplicate keys are refused by the parser. */
    static Fields parse(byte[] json, String where) {
        try (
            XContentParser parser = JsonXContent.jsonXContent.createParser(
                NamedXContentRegistry.EMPTY,
                DeprecationHandler.IGNORE_DEPRECATIONS,
                json
            )
        ) {
            if (parser.nextToken() != XContentParser.Token.START_OBJECT) {
                throw new IllegalArgumentException(where + " is not a JSON object");
            }
            Map<String, Object> map = parser.map();
            if (parser.nextToken() != null) {
                throw new IllegalArgumentException(where + " goes on after the object");
            }
            return new Fields(map, where);
        } catch (IOException e) {
            // The parser's message quotes the text, so it is not passed on.
            throw new IllegalArgumentException(where + " is not JSON");
        }
    }

    boolean has(String name) {
        return left.containsKey(name);
    }

    private Object take(String name) {
        if (left.containsKey(name) == false) {
            throw new IllegalArgumentException(where + " lacks [" + name + "]");
        }
        return left.remove(name);
    }

    private IllegalArgumentException wrong(String name, String what) {
        return new IllegalArgumentException(where + " [" + name + "] is not " + what);
    }

    String string(String name) {
        if (take(name) instanceof String text) {
            return text;
        }
        throw wrong(name, "a string");
    }

    String nullableString(String name) {
        Object value = take(name);
        if (value == null || value instanceof String) {
            return (String) value;
        }
        throw wrong(name, "a string or null");
    }

    boolean bool(String name) {
        if (take(name) instanceof Boolean value) {
            return value;
        }
        throw wrong(name, "true or false");
    }

    /** Takes a finite number. */
    double number(String name) {
        Double value = nullableNumber(name);
        if (value == null) {
            throw wrong(name, "a number");
        }
        return value;
    }

    /** Takes a finite number or null. */
    Double nullableNumber(String name) {
        Object value = take(name);
        if (value == null) {
            return null;
        }
        if (value instanceof Number number && Double.isFinite(number.doubleValue())) {
            return number.doubleValue();
        }
        throw wrong(name, "a finite number");
    }

    /** Takes a number of milliseconds: finite and not negative. */
    double millis(String name) {
        double value = number(name);
        if (value < 0) {
            throw wrong(name, "a duration");
        }
        return value;
    }

    int integer(String name, int min) {
        Object value = take(name);
        if (value instanceof Integer number && number >= min) {
            return number;
        }
        throw wrong(name, "an integer of at least " + min);
    }

    Fields object(String name) {
        if (take(name) instanceof Map<?, ?> map) {
            return new Fields(map, where + " [" + name + "]");
        }
        throw wrong(name, "an object");
    }

    /** Takes an object or null. */
    Fields nullableObject(String name) {
        if (left.containsKey(name) && left.get(name) == null) {
            left.remove(name);
            return null;
        }
        return object(name);
    }

    List<Fields> objects(String name) {
        if (take(name) instanceof List<?> list) {
            List<Fields> fields = new ArrayList<>(list.size());
            for (Object item : list) {
                if (item instanceof Map<?, ?> map) {
                    fields.add(new Fields(map, where + " [" + name + "]"));
                } else {
                    throw wrong(name, "an array of objects");
                }
            }
            return fields;
        }
        throw wrong(name, "an array");
    }

    /** Takes an object as it stands. */
    Map<String, Object> map(String name) {
        if (take(name) instanceof Map<?, ?> map) {
            Map<String, Object> copy = new LinkedHashMap<>();
            map.forEach((key, value) -> copy.put(String.valueOf(key), value));
            return copy;
        }
        throw wrong(name, "an object");
    }

    /** Takes an array of at most {@code max} numbers that are finite as floats. */
    float[] floats(String name, int max) {
        if (take(name) instanceof List<?> list && list.size() <= max) {
            float[] floats = new float[list.size()];
            for (int i = 0; i < floats.length; i++) {
                if (list.get(i) instanceof Number number && Float.isFinite(number.floatValue())) {
                    floats[i] = number.floatValue();
                } else {
                    throw wrong(name, "an array of finite numbers");
                }
            }
            return floats;
        }
        throw wrong(name, "an array of at most " + max);
    }

    /** Takes every field that is left, each a finite number or null. */
    Map<String, Double> nullableNumbers() {
        Map<String, Double> numbers = new LinkedHashMap<>();
        for (String name : List.copyOf(left.keySet())) {
            numbers.put(name, nullableNumber(name));
        }
        return numbers;
    }

    /** Refuses fields that nobody took. */
    void end() {
        if (left.isEmpty() == false) {
            throw new IllegalArgumentException(where + " has an unknown field");
        }
    }
}
