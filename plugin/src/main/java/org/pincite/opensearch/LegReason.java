package org.pincite.opensearch;

import java.util.Locale;

/** Why a leg of the first stage was left out: the closed list of {@code contracts/schemas/ext_pincite.schema.json}. */
enum LegReason {
    NOT_IN_INDEX,
    ENCODER_LACKS_LANGUAGE,
    FILTER_NOT_SEPARABLE,
    LEG_FAILED,
    LEG_TIMEOUT,
    LEGS_UNAVAILABLE,
    DISABLED,
    COLLAPSED;

    /** Returns the word used on the wire. */
    String code() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * Finds a reason by its word on the wire.
     *
     * @throws IllegalArgumentException when there is none of that name
     */
    static LegReason of(String code) {
        for (LegReason reason : values()) {
            if (reason.code().equals(code)) {
                return reason;
            }
        }
        throw new IllegalArgumentException("unknown reason of a leg");
    }
}
