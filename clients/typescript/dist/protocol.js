// Generated from `schemas/` by `npm run generate`. Changes go there.
export {};
